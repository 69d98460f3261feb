package checkpoint

import (
	"errors"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/internal/dberror"
)

// ErrFenced: another owner has acquired the slot, since the store has a higher epoch of it; whatever this process still
// holds must not be written.
var ErrFenced = errors.New("fenced: another process owns the slot now")

// ErrBehind: the store lacks the slot's epoch, or the batch before that of a Commit. The database has forgotten commits
// that it had acknowledged: it crashed, or failed over to a standby that was behind, or a backup was restored. What it
// forgot has to be read back from the log: acquire the slot anew. A number that the slot has passed is refused with it too:
// no Commit is tried twice, so the database forgot an epoch, and gave it to another owner again.
var ErrBehind = errors.New("the checkpoint has forgotten batches (the database crashed, failed over to a standby that was behind, or was restored)")

// ErrGone: the store's tables were dropped or emptied since it was opened. It is to be opened, and bound, anew.
var ErrGone = dberror.ErrGone

// CompareEpochs says what the epoch that a store has of a slot (0: it does not know the slot) means to the owner of epoch
// mine: nil, ErrFenced or ErrBehind.
func CompareEpochs(have, mine int64) error {
	switch {
	case have > mine:
		return ErrFenced
	case have < mine:
		return ErrBehind
	}
	return nil
}

// NotEndedError: a stream that lives can't be forgotten.
type NotEndedError struct{ Stream change.StreamID }

func (e *NotEndedError) Error() string { return "stream " + string(e.Stream) + " has not ended" }

// HeldError: the slot's lease is still running.
type HeldError struct {
	Slot  int
	Owner string
	Until time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("slot %d is held by %s until %s", e.Slot, e.Owner, e.Until.Format(time.RFC3339))
}

// LayoutError: the cluster's streams are spread over another number of slots.
type LayoutError struct{ Want, Have int }

func (e *LayoutError) Error() string {
	return fmt.Sprintf("the streams are spread over %d slots, and KUBECDC_SLOTS is %d here", e.Have, e.Want)
}

// OtherClusterError: the checkpoint was written for another cluster.
type OtherClusterError struct {
	Cluster       string
	Stored, Found change.ClusterIdentity
}

func (e *OtherClusterError) Error() string {
	if e.Stored.UID != "" && e.Found.UID == "" {
		return fmt.Sprintf("the checkpoint of cluster %q belongs to the cluster with %s, and nobody can tell whether this is it (%s): "+
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

// OtherLogError: the checkpoint was written with another log.
type OtherLogError struct {
	Cluster, Stored, Found string
}

func (e *OtherLogError) Error() string {
	return fmt.Sprintf("the checkpoint of cluster %q tells how far %s is complete, but the sink is %s: set KUBECDC_CHECKPOINT to "+
		"another database or file (everything is then written anew, beginning with a snapshot), or the sink back to what it was",
		e.Cluster, e.Stored, e.Found)
}

// InUseError: another process has the checkpoint file open.
type InUseError struct{ Path string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("the checkpoint file %s is in use by another process: stop it, or set KUBECDC_CHECKPOINT to "+
		"another file, or to a postgres:// database, which many processes can share", e.Path)
}
