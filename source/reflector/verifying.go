package reflector

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/discovery"
)

// verifying checks that the server still has the log's history.
//
// A watch from a resourceVersion that the server has not reached yet is no error. The API server opens the watch, sends neither
// events nor bookmarks until it has reached the version, and skips what happened before (seen on 1.36.3). After a restore of etcd
// from a backup, the log's position is such a version. Once the server has grown past that version, it even delivers events, as
// if nothing had happened. So the history is verified before the watch goes on, at every start and whenever a connection ended
// otherwise than by the watch's timeout:
//
//  1. A list of one object without resourceVersion is a consistent read, so no server of this history ever sent anything newer. If its
//     version is lower than the position, the history is older than the log. A broken proxy may give such an answer too, so a second
//     read is made after a pause, on a fresh connection.
//  2. The newest known object is read at its own version. If the server has another object there, it has another history. (If that
//     version is compacted, nothing is known. Most of the time the position is then too old for a watch too.)
//
// After empty watches all objects are compared instead (empty_watch.go), which shows more.
type verifying struct {
	*Reflector
	then *watching   // the next state if the server has the history
	gap  *change.Gap // the gap of the list that was stale, or nil
	// the log has lost records up to this version, which is listed next. Empty: it has lost none
	lostUpTo   change.ResourceVersion
	mismatches int    // how often in a row the server seemed to be behind the log
	other      string // why the first read showed another history, or empty
}

// verify returns the state that checks the server's history before the watch goes on.
func (r *Reflector) verify(then *watching) *verifying { return &verifying{Reflector: r, then: then} }

func (v *verifying) name() change.StreamState { return change.StateVerifying }

func (v *verifying) step(ctx context.Context) (state, error) {
	if v.then.empty.listDue() {
		if err := v.then.compare(ctx); err != nil {
			return v, v.failed(err, "compare %s with the log", v.ID())
		}
		if unchanged := v.then.empty.unchanged; unchanged != "" {
			reason := fmt.Sprintf("nothing differs at resourceVersion %s; watching once more from %s", unchanged, v.cursor)
			return v.enter(v.then, reason), nil
		}
	}
	var server change.ResourceVersion
	err := v.options.Recovery.limit(ctx, func() (err error) { // all streams are verified at once, as after a restart
		server, err = v.client.First(ctx, v.stream)
		return err
	})
	if err != nil {
		return v, v.failed(err, "compare %s with the log", v.ID())
	}
	reason, newest := "", v.newestEmitted()
	if v.cursor.Compare(newest) > 0 {
		newest = v.cursor
	}
	if server.Compare(newest) < 0 {
		reason = fmt.Sprintf("the server is at resourceVersion %s, the log at %s", server, newest)
	} else {
		same := false
		if reason, same = v.otherHistory(ctx); reason == "" && !same {
			reason = v.other // compacted meanwhile
		}
		v.other = reason
	}
	switch {
	case reason == "" && v.lostUpTo != "":
		return v.listLost(ctx)
	case reason == "" && v.ahead != "" && v.then.catchUp == nil:
		return v.listAgain(), nil
	case reason == "":
		return v.enter(v.then, "the server has the log's history; watching from "+string(v.cursor)), nil
	}
	if v.mismatches++; v.mismatches < 2 {
		v.renewClient()
		return v, fmt.Errorf("%w: %s", errBehind, reason)
	}
	return v.foundRestore(ctx, v.gapBack(), reason)
}

// listAgain begins a list after one that was interrupted, by the process's end or by a server that is behind. A watch from the
// position would not do: of what that list has emitted, older changes are not emitted any more.
func (v *verifying) listAgain() state {
	v.log.Warn("relist: a list was interrupted", "position", v.position, "newest in the log", v.ahead)
	v.observer.Relisted(v.ID(), RelistInterrupted)
	reason := fmt.Sprintf("relist: a list was interrupted: the log has objects up to resourceVersion %s, and is complete "+
		"up to %s", v.ahead, v.position)
	return v.enter(v.list(v.gapBack()), reason)
}

// listLost lists the collection as it was when the log's position was known. So the watch from there brings all later changes.
// Nothing is known of the past lists of aggregated API servers.
func (v *verifying) listLost(ctx context.Context) (state, error) {
	aggregated, err := discovery.Aggregated(ctx, v.client, v.stream.Resource)
	switch {
	case err != nil:
		return v, v.failed(err, "find out who serves %s", v.ID())
	case aggregated:
		return v.enter(v.list(v.gap), "relist: it may be served by an aggregated API server"), nil
	}
	l := v.list(nil)
	l.pastVersion, l.lost = v.lostUpTo, v.gap
	return v.enter(l, "comparing the log with resourceVersion "+string(l.pastVersion)), nil
}

// errBehind reports that the server seems to be older than the log. The server is asked a second time before the stream believes
// the answer.
var errBehind = errors.New("the server seems to be behind the log")

func (v *verifying) gapBack() *change.Gap { return cmp.Or(v.gap, v.then.gapOfList()) }

// otherHistory reads the newest known object at its own version. If the server has another object there, it returns a text that
// says so. same says that the server has that object. With neither result nothing is known.
func (r *Reflector) otherHistory(ctx context.Context) (reason string, same bool) {
	key, newest, ok := r.known.Newest()
	if !ok {
		return "", false
	}
	namespace, name := change.SplitKey(key)
	others := false
	options := apiclient.ListOptions{MetadataOnly: true, Exact: newest.Version, Namespace: namespace, Name: name}
	err := r.options.Recovery.limit(ctx, func() error {
		_, err := r.client.List(ctx, r.stream, options, func(_ *apiclient.Page, o *apiclient.Object, err error) error {
			same = same || err == nil && o.Key() == key && o.UID == newest.UID && o.Version == newest.Version
			others = others || err != nil || o.Key() != key
			return nil
		})
		return err
	})
	// A server that ignores the parameters (an aggregated one) answers with something else, which proves nothing.
	switch {
	case err != nil || others:
		return "", false
	case same:
		return "", true
	}
	return fmt.Sprintf("the log has object %q at resourceVersion %s, the server's history has not", key, newest.Version), false
}
