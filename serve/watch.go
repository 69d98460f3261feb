package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/internal/cells"
	"kubecdc/internal/web"
	"kubecdc/query"
	"kubecdc/sinks"
)

// bookmarkInterval is the time between two bookmarks.
const bookmarkInterval = 20 * time.Second

// reviewInterval is the time after which a watch makes sure again that its client may watch.
const reviewInterval = 20 * time.Second

// mostWatched is how long a watch lasts, unless the client asks for less.
const mostWatched = 30 * time.Minute

// watcher writes the events of one watch.
type watcher struct {
	*Server
	q        *request
	resource *served
	view     *view
	w        http.ResponseWriter
	flush    func() error
	matches  func(*query.Object) bool // or nil for all
	version  change.ResourceVersion   // version of the last event
	from     change.ResourceVersion   // version at which the watch begins
	newest   map[change.StreamID]change.ResourceVersion
	held     heldGap
	may      func() error // whether the client may still watch
	hashes   *hashes
}

// watch answers with the changes after a version, past and future ones. A watch of a moment gets only bookmarks, since a moment
// does not change.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, q *request, resource *served, v *view) error {
	matches, err := q.matcher(resource)
	if err != nil {
		return err
	}
	if q.form == "PartialObjectMetadataList" || q.media.isYAML {
		return notAcceptable()
	}
	if q.pinned {
		if err := v.has(q.askedVersion(), false); err != nil {
			return err
		}
	}
	limit := mostWatched
	if seconds := q.TimeoutSeconds; seconds != nil && *seconds != 0 && *seconds < int64(limit.Seconds()) {
		limit = time.Duration(*seconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	w.Header().Set("Content-Type", "application/json")
	out := &watcher{Server: s, q: q, resource: resource, view: v, w: w,
		flush: http.NewResponseController(w).Flush, matches: matches, version: v.version,
		newest: map[change.StreamID]change.ResourceVersion{}, hashes: s.hashesOf(r.Context(), q, resource),
		may: func() error { return s.may(r, q, q.asked()) }}
	if web.IsSocket(r) {
		return out.bySocket(ctx, r)
	}
	return out.end(ctx, out.run(ctx))
}

// end ends a watch with an error event, unless its time is over or its client has left.
func (w *watcher) end(ctx context.Context, why error) error {
	if why == nil || ctx.Err() != nil {
		return nil
	}
	body, err := json.Marshal(w.statusOf(why))
	if err == nil {
		err = w.write("ERROR", body)
	}
	return err
}

func (w *watcher) run(ctx context.Context) error {
	from, listed := w.q.askedVersion(), false
	if w.q.wantsInitial() || from == "" {
		if err := w.initial(ctx); err != nil {
			return err
		}
		from, listed = w.view.version, true
	} else {
		warn(w.w, w.q, w.doubts(w.view, w.view.pages.Missing))
	}
	if err := w.flush(); err != nil {
		return err
	}
	changes, done := make(chan arrived), make(chan error, 1)
	defer func() { w.held.memory.shrink(0) }()
	if !w.q.pinned { // at a moment nothing changes
		q, err := inTurn(ctx, w.views, func() (sinks.Query, error) { return w.following(ctx, from, listed) })
		if err != nil {
			return err
		}
		go func() {
			done <- w.log.Changes(ctx, q, func(l *sinks.Logged) error {
				a, err := w.views.arrive(ctx, l)
				if err != nil {
					return err
				}
				select {
				case changes <- a:
					return nil
				case <-ctx.Done():
					a.memory.shrink(0)
					return ctx.Err()
				}
			})
		}()
	}
	return w.writeAll(ctx, changes, done)
}

// initial writes the existing objects. The bookmark after them has an annotation (KEP-3157).
func (w *watcher) initial(ctx context.Context) error {
	all := *w.q
	all.Limit, all.Continue = 0, ""
	l, err := w.read(ctx, &all, w.resource, w.view)
	if err != nil {
		return err
	}
	defer l.memory.shrink(0)
	warn(w.w, w.q, slices.Concat(w.doubts(w.view, l.missing), l.hidden))
	err = l.each(ctx, w.views, func(some []*query.Object) error {
		for _, o := range some {
			if err := w.event("ADDED", o); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.version = w.view.version
	if w.q.wantsInitial() && w.q.AllowWatchBookmarks {
		return w.bookmark(ctx, map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return nil
}

// following returns the query for the changes after a version, past ones first.
func (w *watcher) following(ctx context.Context, from change.ResourceVersion, listed bool) (q sinks.Query, err error) {
	q = sinks.Query{Resources: []string{w.resource.logged()}, Namespace: w.q.namespace, Name: w.q.only(), Follow: true}
	w.from, w.version = from, from
	if listed && w.view.end != nil {
		q.After = w.view.end // the view has all changes up to it
		return q, nil
	}
	if since, known := w.view.since(); !known || from.Compare(since) < 0 {
		return q, expired(errors.New("it has every change since resourceVersion " + string(since)))
	}
	q.After, err = w.views.follower.CutBefore(ctx, w.resource.logged(), from)
	return q, unlessRetained(err)
}

// writeAll writes changes and bookmarks until the watch ends, or the reading of changes is done.
func (w *watcher) writeAll(ctx context.Context, changes <-chan arrived, done <-chan error) (err error) {
	tick, review := time.NewTicker(bookmarkInterval), time.NewTicker(w.reviewed)
	defer tick.Stop()
	defer review.Stop()
	for err == nil {
		var retry <-chan time.Time
		if len(w.held.changes) > 0 {
			retry = time.After(retryGap)
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-done:
			return err
		case <-retry:
			err = w.release(ctx, false)
		case <-tick.C:
			err = w.bookmark(ctx, map[string]string{})
		case <-review.C:
			if refused := w.may(); apierrors.IsForbidden(refused) || apierrors.IsUnauthorized(refused) {
				return refused
			} // with another error the watch goes on
		case a := <-changes:
			err = w.next(ctx, &a.Logged)
			a.memory.shrink(0)
		}
	}
	return err
}

// next writes or holds a change, unless its stream has gone back.
func (w *watcher) next(ctx context.Context, l *sinks.Logged) error {
	stream := l.Stream.ID()
	switch {
	case w.view.end != nil && w.view.end.Has(l):
	case l.ResourceVersion.Compare(w.from) <= 0 || l.ResourceVersion.Compare(w.newest[stream]) <= 0:
		if err := w.checkHistory(ctx); err != nil {
			return err
		}
	default:
		w.newest[stream] = l.ResourceVersion
	}
	held, err := w.hold(ctx, l)
	if err == nil && !held {
		err = w.change(ctx, l)
	}
	return err
}

// checkHistory ends the watch if etcd was restored from a backup since it began. Both histories may have the same versions.
func (w *watcher) checkHistory(ctx context.Context) error {
	n, err := w.views.follower.Restores(ctx, w.resource.logged())
	for i := range w.view.pages.Coverage {
		n -= w.view.pages.Coverage[i].Restores
	}
	if err == nil && n > 0 {
		err = expired(errors.New("etcd was restored from a backup: list again"))
	}
	return err
}

// change writes the event of a change. An object that begins or ceases to be selected is added or deleted.
func (w *watcher) change(ctx context.Context, l *sinks.Logged) error {
	version := l.ResourceVersion
	switch {
	case l.Op == change.Read:
		return nil
	case l.Op == change.Delete && l.Inferred: // its version is unknown, and the record has the object's last one
		if replaced, err := w.replaced(ctx, l); replaced || err != nil {
			return err
		}
	case version.Compare(w.from) <= 0:
		return nil
	}
	if version.Compare(w.version) > 0 {
		w.version = version
	}
	before, after := w.object(l, l.Before), w.object(l, l.After)
	defer func() { _ = w.flush() }()
	switch {
	case after == nil && before != nil: // deleted, or no longer selected
		before.ResourceVersion, before.Body = w.version, withVersion(before.Body, w.version)
		return w.fitted("DELETED", before)
	case after == nil:
		return nil
	case l.Op == change.Create || before == nil:
		return w.fitted("ADDED", after)
	}
	return w.fitted("MODIFIED", after)
}

// replaced reports whether the client may already have a newer object of that name.
func (w *watcher) replaced(ctx context.Context, l *sinks.Logged) (bool, error) {
	found, err := w.views.page(ctx, w.view, query.Within{Namespace: l.Namespace, Name: l.Name}, 1)
	if err != nil || len(found.Objects) == 0 {
		return false, err
	}
	o := found.Objects[0]
	return o.UID != l.UID && o.ResourceVersion.Compare(l.ResourceVersion) > 0 && o.ResourceVersion.Compare(w.from) <= 0, nil
}

// withVersion returns a body with another resourceVersion.
func withVersion(body []byte, v change.ResourceVersion) []byte {
	object := cells.Decoded(body)
	if metadata, isObject := object["metadata"].(map[string]any); isObject {
		metadata["resourceVersion"] = string(v)
	}
	return []byte(cells.Compact(object))
}

// object returns an image of a change, or nil if the selectors do not select it.
func (w *watcher) object(l *sinks.Logged, body []byte) *query.Object {
	o := &query.Object{Resource: w.resource.ID(), Namespace: l.Namespace, Name: l.Name, UID: l.UID,
		ResourceVersion: l.ResourceVersion, Logged: l.Logged, Body: body}
	w.resource.rename(o)
	if body == nil || w.matches != nil && !w.matches(o) {
		return nil
	}
	return o
}

// fitted writes the event of an object from the log.
func (w *watcher) fitted(kind string, o *query.Object) error {
	if _, err := w.hashes.fit(o); err != nil {
		return err
	}
	return w.event(kind, o)
}

func (w *watcher) event(kind string, o *query.Object) error {
	body, err := w.formOf(w.q, w.resource, w.view, o)
	if err != nil {
		return err
	}
	return w.write(kind, body)
}

func (w *watcher) bookmark(ctx context.Context, annotations map[string]string) error {
	if !w.q.AllowWatchBookmarks {
		return w.flush()
	}
	kind, version := w.resource.Kind, w.resource.APIVersion()
	if w.q.form != "" {
		kind, version = w.q.form, "meta.k8s.io/v1"
	}
	meta := map[string]any{"resourceVersion": w.version, "creationTimestamp": nil}
	if w.view.end != nil {
		upTo, err := w.views.follower.Current(ctx, w.resource.logged())
		if err != nil {
			return err
		}
		if w.isStale(upTo) {
			annotations[endAnnotation] = upTo.UTC().Format(time.RFC3339)
		}
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	body, err := json.Marshal(map[string]any{"kind": kind, "apiVersion": version, "metadata": meta})
	if err == nil {
		err = w.write("BOOKMARK", body)
	}
	if err != nil {
		return err
	}
	return w.flush()
}

func (w *watcher) write(kind string, body []byte) error {
	_, err := w.w.Write([]byte(`{"type":"` + kind + `","object":` + string(body) + "}\n"))
	return err
}
