// Package failpoint lets a test kill, or suspend, the process at a named step: between receiving an event and committing its
// position, and while a new owner brings the checkpoint up to the log. Only builds with the tag failpoints have it; in all others Hit is empty and costs nothing.
package failpoint

// The steps, in their order.
const (
	Received       = "received"        // an event was read, and is about to be handed on
	Collected      = "collected"       // a batch was gathered
	Prepared       = "prepared"        // it has its number and before-images
	TxnAdded       = "txn-added"       // Kafka knows the transaction's partitions
	DataProduced   = "data-produced"   // the changes are in the log, not committed
	ControlWritten = "control-written" // so is the control record
	Written        = "written"         // the sink has committed the batch
	Committed      = "committed"       // the checkpoint has it too
	RollingForward = "rolling-forward" // a new owner has read a batch of the tail, and is about to commit it
	Rebuilding     = "rebuilding"      // a page of a rebuild of the checkpoint is about to be written
	Rebuilt        = "rebuilt"         // all of them are, and the rebuild is about to be ended
)

// All are the steps that a batch to Kafka passes, and those of a rebuild.
var All = []string{Received, Collected, Prepared, TxnAdded, DataProduced, ControlWritten, Written, Committed, RollingForward, Rebuilding, Rebuilt}
