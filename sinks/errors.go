package sinks

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kubecdc/change"
)

// ErrInvalidWriter says that the sink accepts no more writes from this writer of the slot, so the log must be opened again.
// Perhaps a newer owner has opened the log, which only the checkpoint knows (checkpoint.ErrFenced). Or the sink has dropped the
// writer, as Kafka does after a transaction timeout.
var ErrInvalidWriter = errors.New("the sink has fenced this writer of the slot")

// NewerEpochError says that the slot's log was already opened with this epoch or a newer one. If another owner has acquired the
// slot, the checkpoint says so. Otherwise the checkpoint was rebuilt or restored from a backup, and its epoch must be raised.
// Nothing was written.
type NewerEpochError struct {
	Slot  int
	Epoch int64 // the newest in the log
}

func (e *NewerEpochError) Error() string {
	return fmt.Sprintf("the log of slot %d was opened with epoch %d already", e.Slot, e.Epoch)
}

// OtherClusterError says that the records with the cluster's name belong to another cluster. Nothing was written.
type OtherClusterError struct {
	Log     string // the log's address in the settings
	Cluster string // the name of both clusters
	Stored  string // the identity in the log
	Found   string // the identity of this cluster
	Setting string // the setting that names the log
}

func (e *OtherClusterError) Error() string {
	const ca = "ca-sha256:"
	if strings.HasPrefix(e.Found, ca) && !strings.HasPrefix(e.Stored, ca) {
		return fmt.Sprintf("%s has the log of the cluster named %q with uid %s, and nobody can tell whether this is it: this "+
			"API server "+
			"is known by its CA alone (%s), and the checkpoint does not know the uid: grant get on namespace kube-system "+
			"(again), or, if it "+
			"is another cluster, set KUBECDC_CLUSTER to a name of its own; nothing was written", e.Log, e.Cluster, e.Stored,
			e.Found)
	}
	return fmt.Sprintf("%s has the log of another cluster named %q, with uid %s, and this API server's is %s: set "+
		"KUBECDC_CLUSTER "+
		"to a name of its own, or %s to another place; nothing was written", e.Log, e.Cluster, e.Stored, e.Found, e.Setting)
}

// OtherEncodingError says that keys in the log differ from keys of the configured encoding. Nothing was written.
type OtherEncodingError struct {
	Log     string // the log's address in the settings
	Stored  string
	Found   string // the configured encoding
	Setting string // the setting that names the log
}

func (e *OtherEncodingError) Error() string {
	return fmt.Sprintf("%s has records of the encoding %s, and KUBECDC_ENCODING is %s, which has other keys: a compacted "+
		"topic would "+
		"keep objects under their former keys for ever: set KUBECDC_ENCODING=%[2]s, or begin another log: set %[4]s to another "+
		"place, "+
		"and KUBECDC_CHECKPOINT too; nothing was written", e.Log, e.Stored, e.Found, e.Setting)
}

// MovedError says that an address now leads to another server, which does not have the log. Nothing was written to that server.
type MovedError struct{ Address, Known, Found string }

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s leads to %s now, and the log is in %s: set the sink back to what it was, or, for a new log, "+
		"KUBECDC_CHECKPOINT to another database or file; nothing was written there", e.Address, e.Found, e.Known)
}

// RefusedError says that the log refuses the records of some resources, and would accept other resources' records. As after any
// error, the log must be opened again.
type RefusedError struct{ Refusals []Refusal }

func (e *RefusedError) Error() string {
	var texts []string
	for _, r := range e.Refusals {
		texts = append(texts, r.Err.Error())
	}
	return strings.Join(texts, "; ")
}

// Refusal is one place of the log that refuses records.
type Refusal struct {
	Place   string                     // for instance a topic
	Refuses func(change.Resource) bool // reports whether a resource's records are refused
	Err     error
	// Again checks whether the log would accept the records now, as far as that can be found out without writing them.
	Again func(ctx context.Context) error
}
