package reflector

import (
	"slices"

	"kubecdc/change"
)

// transition is one transition between two states. Any state but loading also leads to change.StateAbsent, when the resource is
// removed from the API (resource.go). change.StateWaiting, change.StateRefused and change.StateUnsupported are reported while a
// state waits to be repeated: an error leads to no other state, and never moves the position.
type transition struct {
	From, To change.StreamState
	When     string
}

// transitions are all transitions. The tests compare them with those that they see, and with the table in docs/protocol.md. A
// stream that takes another one fails them.
var transitions = []transition{
	{change.StateLoading, change.StateListing, "no position is known, or not how far the log is complete"},
	{change.StateLoading, change.StateVerifying, "a position is known"},
	{change.StateListing, change.StateWatching, "the list is complete"},
	{change.StateListing, change.StateCatchingUp, "the list is complete, and ran over several revisions"},
	{change.StateListing, change.StateVerifying, "the list is older than the log"},
	{change.StateWatching, change.StateVerifying, "the connection ended otherwise than by its timeout, or the watch was empty"},
	{change.StateWatching, change.StateExpired, "410, a list shows what the watch does not deliver, or a deletion can't be read"},
	{change.StateWatching, change.StateListing, "another stream has found that etcd was restored"},
	{change.StateCatchingUp, change.StateWatching, "the watch has passed the list's end"},
	{change.StateCatchingUp, change.StateVerifying, "as from watching"},
	{change.StateCatchingUp, change.StateExpired, "410, or a deletion can't be read"},
	{change.StateCatchingUp, change.StateListing, "the watch is empty, or as from watching"},
	{change.StateVerifying, change.StateWatching, "the server has the log's history"},
	{change.StateVerifying, change.StateCatchingUp, "the same, while a list is caught up with"},
	{change.StateVerifying, change.StateListing, "etcd was restored from a backup, a list was interrupted, or the log has lost " +
		"records"},
	{change.StateExpired, change.StateWatching, "another server may still have the position"},
	{change.StateExpired, change.StateCatchingUp, "the same, while a list is caught up with"},
	{change.StateExpired, change.StateBackfilling, "no server has the position"},
	{change.StateExpired, change.StateListing, "recovery is off, or a list was being caught up with"},
	{change.StateBackfilling, change.StateWatching, "recovered, or nothing was missed"},
	{change.StateBackfilling, change.StateListing, "it can't be recovered, or etcd was restored"},
	{change.StateAbsent, change.StateListing, "the resource is served again"},
}

// allowed reports whether the table has a transition, or both states are the same.
func allowed(from, to change.StreamState) bool {
	return from == to || to == change.StateAbsent && from != change.StateLoading ||
		slices.ContainsFunc(transitions, func(t transition) bool { return t.From == from && t.To == to })
}
