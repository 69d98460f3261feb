package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/fault"
)

// ErrFenced means that the store has a higher epoch of the slot, since another owner has acquired it. This process must not write
// what it still holds.
var ErrFenced = errors.New("fenced: another process owns the slot now")

// ErrBehind means that the store lacks the slot's epoch, or the batch before a Commit. The database has forgotten acknowledged
// commits: it crashed, failed over to a standby that was behind, or was restored from a backup. Acquire the slot again, and read
// the forgotten commits back from the log.
//
// A Commit whose number is below the slot's gets ErrBehind, too. No Commit is tried twice, so the database forgot an epoch and
// gave it to another owner.
var ErrBehind = errors.New("the checkpoint has forgotten batches " +
	"(the database crashed, failed over to a standby that was behind, or was restored)")

// ErrDamaged means that a stored body can't be unpacked, or that its delta refers to another base. Read the stored state from the
// log again.
var ErrDamaged = errors.New("the checkpoint is damaged (where the log can't be read back, give the exporter a new one)")

// ErrGone means that the store's tables were dropped or emptied after it was opened. Open and bind it again.
var ErrGone = fault.ErrGone

// CompareEpochs returns what the store's epoch of a slot (0: unknown slot) means to the owner with epoch mine: nil, ErrFenced or
// ErrBehind.
func CompareEpochs(have, mine int64) error {
	switch {
	case have > mine:
		return ErrFenced
	case have < mine:
		return ErrBehind
	}
	return nil
}

// NotEndedError means that a stream that has not ended can't be forgotten.
type NotEndedError struct{ Stream change.StreamID }

func (e *NotEndedError) Error() string { return "stream " + string(e.Stream) + " has not ended" }

// HeldError means that another owner's lease of the slot has not expired.
type HeldError struct {
	Slot  int
	Owner string
	Until time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("slot %d is held by %s until %s", e.Slot, e.Owner, e.Until.Format(time.RFC3339))
}

// LayoutError means that the cluster's streams are spread over another number of slots.
type LayoutError struct{ Want, Have int }

func (e *LayoutError) Error() string {
	return fmt.Sprintf("the streams are spread over %d slots, and KUBECDC_SLOTS is %d here", e.Have, e.Want)
}

// OtherClusterError means that the checkpoint was written for another cluster.
type OtherClusterError struct {
	Cluster       string
	Stored, Found change.ClusterIdentity
}

func (e *OtherClusterError) Error() string {
	if e.Stored.UID != "" && e.Found.UID == "" {
		return fmt.Sprintf("the checkpoint of cluster %q belongs to the cluster with %s, and nobody can tell whether this is "+
			"it (%s): "+
			"the right to read namespace kube-system was lost (%s): grant get on namespace kube-system again",
			e.Cluster, e.Stored, e.Found, e.Found.Hidden)
	}
	text := fmt.Sprintf("the checkpoint of cluster %q belongs to the cluster with %s, but this API server's has %s: "+
		"set KUBECDC_CLUSTER to a name of its own, or KUBECDC_CHECKPOINT to another database", e.Cluster, e.Stored, e.Found)
	if e.Stored.UID == "" {
		text += " (if it is the same cluster with a new CA: docs/operations.md)"
	}
	return text
}

// UnknownClusterError means that the store has no checkpoint of the cluster.
type UnknownClusterError struct {
	Cluster, Where string
	Known          []string
}

func (e *UnknownClusterError) Error() string {
	known := "it has none of any cluster"
	if len(e.Known) > 0 {
		known = "it has those of " + strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("%s has no checkpoint of cluster %q; %s: set KUBECDC_CLUSTER and KUBECDC_CHECKPOINT as exporter run "+
		"has them",
		e.Where, e.Cluster, known)
}

// OtherLogError means that the checkpoint was written with another log.
type OtherLogError struct {
	Cluster, Stored, Found string
}

func (e *OtherLogError) Error() string {
	return fmt.Sprintf("the checkpoint of cluster %q tells how far %s is complete, but the sink is %s: set "+
		"KUBECDC_CHECKPOINT to "+
		"another database or file (everything is then written anew, beginning with a snapshot), or the sink back to what it was",
		e.Cluster, e.Stored, e.Found)
}

// InUseError means that another process owns the checkpoint's file.
type InUseError = fault.InUseError
