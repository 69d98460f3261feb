// Package failpoint lets a test kill or suspend the process at a named step. Steps lie between receiving an event and committing
// its position, and where a new owner rolls forward or rebuilds the checkpoint. In builds without the tag failpoints Hit is empty
// and costs nothing.
package failpoint

// These are the steps in their order.
const (
	Received       = "received"        // an event was read, and is about to be sent to the queue
	Collected      = "collected"       // a batch was gathered
	Prepared       = "prepared"        // the batch has its number and before-images
	PreparedAhead  = "prepared-ahead"  // a batch is prepared, and the one before may be in any of the next three steps
	TxnAdded       = "txn-added"       // Kafka's transaction begins. By protocol 1 the partitions were added to it
	DataProduced   = "data-produced"   // the changes were produced, or their rows added to the file, but not committed
	ControlWritten = "control-written" // the control record was produced or added too
	Written        = "written"         // the sink has committed the batch
	BegunAhead     = "begun-ahead"     // the write of a batch has begun, and the one before is durable and not remembered
	Committed      = "committed"       // the checkpoint has it too
	RollingForward = "rolling-forward" // a new owner is about to commit a batch of the tail
	Rebuilding     = "rebuilding"      // a page of a rebuild is about to be written
	Rebuilt        = "rebuilt"         // all pages are written, and the rebuild is about to end
)

// These steps occur only after certain events, and so are not in All.
const (
	SignalAnswered  = "signal-answered"  // the answer to a user's request was stored
	AuditWritten    = "audit-written"    // audit records are durable, and their sender has no answer yet
	RestoreReported = "restore-reported" // a stream has found and reported a restore of etcd, and no other stream has reacted
)

// Steps of a spool.
const (
	Spooling   = "spooling"   // a batch is about to go into a spool, whose file is there
	Spooled    = "spooled"    // it is in the spool
	Forwarding = "forwarding" // the sink is about to get a batch of a spool
	Forwarded  = "forwarded"  // the sink has committed it
	Emptied    = "emptied"    // the sink and the checkpoint have all batches of a spool, which is about to be removed
	Removed    = "removed"    // it is removed
)

// All lists the steps of every exporter. The chaos test kills the process at each of them.
var All = []string{Received, Collected, Prepared, PreparedAhead, TxnAdded, DataProduced, ControlWritten, Written,
	BegunAhead, Committed, RollingForward, Rebuilding, Rebuilt}
