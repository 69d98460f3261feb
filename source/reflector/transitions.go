package reflector

// transition is one way from a state to another. Any state but loading also leads to StateAbsent, when the resource is
// removed from the API (resource.go). StateWaiting and StateUnsupported are reported while a state waits to be repeated: an
// error leads to no other state, and never moves the position.
type transition struct {
	From, To State
	When     string
}

// transitions are all that the states do. The tests compare the table with what was done, and docs/protocol.md prints it.
var transitions = []transition{
	{StateLoading, StateListing, "no position is known: the first snapshot; or the log does not say how far it is complete"},
	{StateLoading, StateVerifying, "a position is known"},
	{StateListing, StateWatching, "the list is complete"},
	{StateListing, StateCatchingUp, "the list is complete, and inconsistent: it ran over several revisions"},
	{StateListing, StateVerifying, "the list is older than the log"},
	{StateWatching, StateVerifying, "the connection ended otherwise than by its timeout, or the watch said nothing for all its time"},
	{StateWatching, StateExpired, "410, or a list shows what the watch does not tell"},
	{StateCatchingUp, StateWatching, "the watch has passed the list's end"},
	{StateCatchingUp, StateVerifying, "as from watching"},
	{StateCatchingUp, StateExpired, "410"},
	{StateCatchingUp, StateListing, "the watch says nothing: the list begins again"},
	{StateVerifying, StateWatching, "the server holds the log's history"},
	{StateVerifying, StateCatchingUp, "the same, while a list is caught up with"},
	{StateVerifying, StateListing, "the server's history went back: etcd was restored from a backup"},
	{StateExpired, StateWatching, "another server may still hold the position: a fresh connection"},
	{StateExpired, StateCatchingUp, "the same, while a list is caught up with"},
	{StateExpired, StateBackfilling, "none does: recover what was missed"},
	{StateExpired, StateListing, "recovery is off, or a list was being caught up with: compare a list"},
	{StateBackfilling, StateWatching, "recovered, or nothing was missed"},
	{StateBackfilling, StateListing, "it can't be recovered: compare a list"},
	{StateAbsent, StateListing, "the resource is served again"},
}
