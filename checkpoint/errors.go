package checkpoint

import (
	"errors"
	"fmt"
	"time"
)

// ErrFenced: another owner has acquired the slot; whatever this process still holds must not be written.
var ErrFenced = errors.New("fenced: another process owns the slot now")

// HeldError: the slot's lease is still running.
type HeldError struct {
	Slot  int
	Owner string
	Until time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("slot %d is held by %s until %s", e.Slot, e.Owner, e.Until.Format(time.RFC3339))
}

// OtherClusterError: the checkpoint was written for another cluster.
type OtherClusterError struct {
	Cluster, Stored, Found string
}

func (e *OtherClusterError) Error() string {
	return fmt.Sprintf("the checkpoint of cluster %q belongs to the cluster with uid %s, but this API server's is %s: "+
		"set KUBECDC_CLUSTER to a name of its own, or KUBECDC_CHECKPOINT to another database", e.Cluster, e.Stored, e.Found)
}
