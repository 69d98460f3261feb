package reflector

import (
	"context"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// verifying asks whether the server still holds the log's history.
//
// A watch from a resourceVersion that the server has not reached yet is no error: the API server keeps it open and
// silent, without bookmarks, until it gets there, and skips what happened before (seen on 1.36.3). After a restore
// of etcd from a backup, the log's position is such a version; and a server that has grown past it meanwhile would
// even deliver, as if nothing had happened. So whenever a connection ended otherwise than by the watch's own
// timeout, and at every start, the history is verified before the watch goes on:
//
//  1. A list of one object, without resourceVersion: a consistent read, so it can't be older than anything that a
//     server of this history ever sent. If its version is lower than the position, the history went back. Since a
//     broken proxy may also say so, it is asked twice, the second time on a fresh connection, after a pause.
//  2. The newest object that the log has is read at its own version. If it was another one then, this is another
//     history. (Where that version is compacted nothing can be told, and the position is then too old to be watched
//     from, unless by chance.)
//
// Where watches end in silence all objects are compared instead (silence.go), which tells more.
type verifying struct {
	*Reflector
	then   *watching   // what goes on if the server holds the history
	gap    *change.Gap // of the list that was left; nil: none was
	doubts int         // how often in a row the server seemed to be behind the log
}

// verify looks at the server's history before the watch goes on.
func (s *Reflector) verify(then *watching) *verifying { return &verifying{Reflector: s, then: then} }

func (s *verifying) name() State { return StateVerifying }

func (s *verifying) step(ctx context.Context) (state, error) {
	if s.then.silence.due() {
		if err := s.then.compare(ctx); err != nil {
			return s, fmt.Errorf("compare %s with the log: %w", s.ID(), err)
		}
		if quietTo := s.then.silence.quietTo; quietTo != "" {
			return s.enter(s.then, fmt.Sprintf("nothing is different at resourceVersion %s; watching once more from %s", quietTo, s.cursor)), nil
		}
	}
	p, err := s.client.List(ctx, s.stream, apiclient.ListOptions{MetadataOnly: true, Limit: 1}, func(*apiclient.Page, []byte) error { return nil })
	if err != nil {
		return s, fmt.Errorf("compare %s with the log: %w", s.ID(), err)
	}
	reason := ""
	if p.Version.Compare(s.cursor) < 0 {
		reason = fmt.Sprintf("the server is at resourceVersion %s, the log at %s", p.Version, s.cursor)
	} else {
		reason = s.otherHistory(ctx)
	}
	if reason == "" {
		return s.enter(s.then, "the server holds the log's history; watching from "+string(s.cursor)), nil
	}
	if s.doubts++; s.doubts < 2 {
		s.renewClient()
		return s, fmt.Errorf("%w: %s", errBehind, reason)
	}
	return s.rewind(reason), nil
}

// errBehind: the server seems to be older than the log. It is asked again before anything is concluded.
var errBehind = errors.New("the server seems to be behind the log")

// rewind begins a list that may take the log back in time.
func (s *verifying) rewind(reason string) state {
	s.held = ""
	if r := s.options.Recovery; r != nil {
		r.shared.Forget()
	}
	gap := s.gap
	if gap == nil && s.then.catchUp != nil {
		gap = s.then.catchUp.gap
	}
	if gap == nil && s.position != "" {
		gap = s.gapFrom(s.position)
	}
	s.log.Error("the server's history went backwards: comparing all objects with the log", "reason", reason)
	s.observer.Relisted(s.ID(), RelistHistoryWentBack)
	l := s.list(gap)
	l.rewinds = true
	return s.enter(l, "history went backwards: "+reason)
}

// otherHistory reads the newest known object at its own version. It returns why the server's history is another one than the
// log's; empty if it is not, or if that can't be told.
func (s *Reflector) otherHistory(ctx context.Context) string {
	key, w, ok := s.known.Newest()
	if !ok || w.Version.Compare(s.cursor) > 0 {
		return ""
	}
	namespace, name := change.SplitKey(key)
	same, others := false, false
	p, err := s.client.List(ctx, s.stream, apiclient.ListOptions{MetadataOnly: true, Exact: w.Version, Namespace: namespace, Name: name}, func(_ *apiclient.Page, raw []byte) error {
		o, err := apiclient.ParseObject(raw)
		same = same || err == nil && o.Key() == key && o.UID == w.UID && o.Version == w.Version
		others = others || err != nil || o.Key() != key
		return nil
	})
	// A server that did not understand the question (an aggregated one) answers another: no evidence.
	if err != nil || same || others || p.Version != w.Version {
		return ""
	}
	return fmt.Sprintf("the log has %s at resourceVersion %s, the server's history has not", key, w.Version)
}
