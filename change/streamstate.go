package change

// StreamState is the name of a stream's state, in logs, metrics, /readyz and the status.
type StreamState string

const (
	StateLoading     StreamState = "loading"     // reading its position and inventory from the checkpoint
	StateListing     StreamState = "listing"     // reading the collection page by page
	StateWatching    StreamState = "watching"    // reading events as they come
	StateCatchingUp  StreamState = "catching-up" // watching, until the watch has passed the end of an inconsistent list
	StateExpired     StreamState = "expired"     // 410: trying fresh connections, then recovery or a list
	StateBackfilling StreamState = "backfilling" // recovering what a watch missed
	StateVerifying   StreamState = "verifying"   // checking that the server still has the log's history
	StateWaiting     StreamState = "waiting"     // backing off after an error
	StateUnsupported StreamState = "unsupported" // can't be exported: its API server gives no numeric resourceVersions
	StateRefused     StreamState = "refused"     // not read, since the API server refuses it, or the sink its records
	StatePaused      StreamState = "paused"      // not read, since a user has paused it
	StateAbsent      StreamState = "absent"      // the API server does not serve the resource

	// These are states of a stream that no process has reported. It may be listing or paused, too.
	StateFollowed   StreamState = "followed" // it has a position, and is to be read by the slot's owner
	StateDeselected StreamState = "deselected"
)

// StreamStates are the states of a stream that is read, or would be.
var StreamStates = []StreamState{StateLoading, StateListing, StateWatching, StateCatchingUp, StateExpired, StateBackfilling,
	StateVerifying,
	StateWaiting, StateUnsupported, StateRefused, StatePaused, StateAbsent}
