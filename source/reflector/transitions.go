package reflector

// transition is one transition between two states. Any state but loading also leads to StateAbsent, when the resource is
// removed from the API (resource.go). StateWaiting, StateRefused and StateUnsupported are reported while a state waits to be
// repeated: an error leads to no other state, and never moves the position.
type transition struct {
	From, To State
	When     string
}

// transitions are all transitions. The tests compare them with those that they see, and with the table in docs/protocol.md.
var transitions = []transition{
	{StateLoading, StateListing, "no position is known: the first snapshot; or it is not known how far the log is complete"},
	{StateLoading, StateVerifying, "a position is known"},
	{StateListing, StateWatching, "the list is complete"},
	{StateListing, StateCatchingUp, "the list is complete, and inconsistent: it ran over several revisions"},
	{StateListing, StateVerifying, "the list is older than the log"},
	{StateWatching, StateVerifying, "the connection ended otherwise than by its timeout, or the watch was empty"},
	{StateWatching, StateExpired, "410, or a list shows what the watch does not deliver"},
	{StateWatching, StateListing, "another stream has found that etcd was restored from a backup"},
	{StateCatchingUp, StateWatching, "the watch has passed the list's end"},
	{StateCatchingUp, StateVerifying, "as from watching"},
	{StateCatchingUp, StateExpired, "410"},
	{StateCatchingUp, StateListing, "the watch is empty: the list begins again; or as from watching"},
	{StateVerifying, StateWatching, "the server has the log's history"},
	{StateVerifying, StateCatchingUp, "the same, while a list is caught up with"},
	{StateVerifying, StateListing, "the server's history went back: etcd was restored from a backup; or a list was interrupted"},
	{StateExpired, StateWatching, "another server may still have the position: a fresh connection"},
	{StateExpired, StateCatchingUp, "the same, while a list is caught up with"},
	{StateExpired, StateBackfilling, "no server has it: recover what was missed"},
	{StateExpired, StateListing, "recovery is off, or a list was being caught up with: compare a list"},
	{StateBackfilling, StateWatching, "recovered, or nothing was missed"},
	{StateBackfilling, StateListing, "it can't be recovered, or etcd was restored from a backup: compare a list"},
	{StateAbsent, StateListing, "the resource is served again"},
}
