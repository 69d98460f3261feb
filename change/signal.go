package change

// SignalState is how far the exporter is with a signal.
type SignalState string

const (
	SignalRequested  SignalState = "requested"   // no owner of the slot has begun
	SignalStarted    SignalState = "started"     // the owner has begun
	SignalInProgress SignalState = "in-progress" // it has come to a key
	SignalPaused     SignalState = "paused"      // the stream stays paused until a signal resumes it
	SignalAborted    SignalState = "aborted"
	SignalCompleted  SignalState = "completed"
	SignalFailed     SignalState = "failed"
)

// Ended reports whether nothing more is done about the signal.
func (s SignalState) Ended() bool {
	return s == SignalAborted || s == SignalCompleted || s == SignalFailed
}

// SignalKind is what a signal asks for.
type SignalKind string

const (
	SignalPause    SignalKind = "pause"    // stop reading a stream, and keep its position
	SignalResume   SignalKind = "resume"   // go on with a paused stream
	SignalForget   SignalKind = "forget"   // drop a stream that has ended from the checkpoint
	SignalSnapshot SignalKind = "snapshot" // compare a collection with the log, or read all of it
	SignalRepair   SignalKind = "repair"   // write what the log has wrongly of some objects
	SignalRestore  SignalKind = "restore"  // compare a collection with the log: etcd was restored from a backup
)

// SignalRecord is what a control record says of a signal.
type SignalRecord struct {
	ID    int64       `json:"id"`
	Kind  SignalKind  `json:"kind"`
	State SignalState `json:"state"`
	Done  int64       `json:"done,omitempty"` // objects
}
