package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
	"kubecdc/internal/web"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// view is one resource at a moment, in one namespace or in all. Objects are read when they are needed.
type view struct {
	viewID
	end     *sinks.Cut // the end of the log, or nil for a moment of the past
	pages   *query.Pages
	version change.ResourceVersion
	upTo    change.ResourceVersion // the last version that the log has
	time    time.Time
	read    time.Time

	describing sync.Mutex
	resources  map[string]*served // that the log describes at the moment, or nil before the first request for them
}

// viewID identifies a view.
type viewID struct {
	Moment string
	collection
}

// collection is the objects of a view. A client that may read one may not read another.
type collection struct{ Resource, Namespace, Name string }

// views caches the last views, which many requests share: pages of a list, and the catalog. Several requests read a view once.
type views struct {
	log         sinks.Reader
	follower    *timeline.Follower
	recent      *lru.Cache[viewID, *view]
	reading     singleflight.Group
	definitions definitions
	kinds       sync.Map // by id: *served of resources whose kind is known only from their objects
	shared
}

// shared is what the requests for all clusters share.
type shared struct {
	turns  *web.Shares // held by requests that query the log before they begin an answer
	places *web.Shares // held by requests that wait for a view
	pages  *web.Shares // held by pages that are being read or written
	memory *web.Shares
	shown  *web.Shares // held by browsers' pages, since all of an answer is in memory
}

func newViews(log sinks.Reader) *views {
	recent, _ := lru.New[viewID, *view](mostViews) // fails only for a size of 0
	return &views{log: log, follower: timeline.NewFollower(log), recent: recent,
		shared: shared{web.NewShares(mostReads), web.NewShares(mostReads), web.NewShares(mostPages), web.NewShares(mostMemory),
			web.NewShares(mostShown)}}
}

const (
	// lacking is how long an incomplete view is cached, since the log may get the missing changes.
	lacking   = 2 * time.Second
	mostViews = 200 // that are cached
	mostShown = 4   // pages for browsers that are made at once
	mostReads = 8   // requests that ask the log at once, and views that are read. A client that leaves does not end the reading
)

// inTurn lets a request ask the log. So hundreds of requests that begin at once, for example of informers, do not delay the
// requests of other users.
func inTurn[T any](ctx context.Context, all *views, ask func() (T, error)) (answer T, err error) {
	user := web.SenderOf(ctx)
	if err := all.turns.Acquire(ctx, user, 1); err != nil {
		return answer, err
	}
	defer all.turns.Release(user, 1)
	return ask()
}

// viewOf returns the view of a request. All requests for a moment share a view. Requests for the end of the log share it until
// the log grows.
func (v *views) viewOf(ctx context.Context, q *request, resource string) (*view, error) {
	target := q.target
	if q.isExact() && q.askedVersion() != "" {
		target = timeline.Target{Version: q.askedVersion()}
	}
	objects := sinks.Objects{Resources: []string{resource}, Namespace: q.namespace}
	id, end := viewID{target.String(), collection{Resource: resource, Namespace: q.namespace}}, (*timeline.Set)(nil)
	// the object's own changes suffice to find the state at a time
	if id.Name = q.only(); id.Name != "" && !target.Happened.IsZero() {
		objects.Names = []string{resource + "/" + id.Name}
	} else {
		id.Name = ""
	}
	if target == (timeline.Target{}) {
		var err error
		if end, err = v.follower.Moment(ctx, objects.Resources, target); err != nil {
			return nil, err
		}
		text, err := json.Marshal(end.Cut)
		if err != nil {
			return nil, err
		}
		id.Moment = string(text)
	}
	if q.Continue != "" {
		token, err := parseToken(q.Continue)
		switch {
		case err != nil:
			return nil, err
		case token.collection != id.collection: // it would be a way around the rights to another resource
			return nil, apierrors.NewBadRequest("continue: it is the token of another list")
		}
		if found, isCached := v.recent.Get(token.viewID); isCached {
			return found, nil
		}
		if token.viewID != id {
			return nil, apierrors.NewResourceExpired("the list of this continue token is not cached any more: begin it again")
		}
	}
	if found, isCached := v.recent.Get(id); isCached && (len(found.pages.Missing) == 0 || time.Since(found.read) < lacking) {
		return found, nil
	}
	return v.readOnce(ctx, id, end, target, query.Question{Objects: objects})
}

// readOnce reads a view. Requests that need the same view wait for one reading.
func (v *views) readOnce(ctx context.Context, id viewID, end *timeline.Set, target timeline.Target,
	q query.Question) (*view, error) {
	user := web.SenderOf(ctx)
	if err := v.places.Acquire(ctx, user, 1); err != nil {
		return nil, err
	}
	done := v.reading.DoChan(fmt.Sprintf("%q", id), func() (any, error) {
		read, err := v.newView(context.WithoutCancel(ctx), id, end, target, q)
		if err == nil {
			v.recent.Add(id, read)
		}
		return read, err
	})
	select {
	case result := <-done:
		v.places.Release(user, 1)
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*view), nil
	case <-ctx.Done():
		go func() { <-done; v.places.Release(user, 1) }()
		return nil, ctx.Err()
	}
}

func (all *views) newView(ctx context.Context, id viewID, end *timeline.Set, target timeline.Target, q query.Question) (v *view,
	err error) {
	v = &view{viewID: id, read: time.Now()}
	known := end
	if end != nil {
		v.end = end.Cut
	} else if known, err = all.follower.Moment(ctx, q.Resources, target); err != nil {
		return nil, unlessRetained(err)
	}
	if v.pages, err = query.OpenPages(ctx, all.follower, known, q, target); err != nil {
		return nil, unlessRetained(err)
	}
	pages := v.pages
	unlisted := len(pages.Coverage) > 0
	for _, c := range pages.Coverage {
		if unlisted = unlisted && c.At == ""; c.At == "" {
			continue
		}
		if v.version == "" || c.At.Compare(v.version) < 0 {
			v.version = c.At // all streams are known up to this version
		}
		if c.UpTo.Compare(v.upTo) > 0 {
			v.upTo = c.UpTo
		}
	}
	v.time = pages.Shown
	if !target.Happened.IsZero() {
		v.time = target.Happened
	}
	if !unlisted {
		return v, nil
	}
	if some, err := pages.Page(ctx, query.Within{}, 1); err != nil {
		return nil, unlessRetained(err)
	} else if len(some.Objects) == 0 {
		return nil, expired(errors.New(pages.Missing[0]))
	}
	return v, nil
}

// since returns the version after which the log has every change of all streams.
func (v *view) since() (since change.ResourceVersion, known bool) {
	for _, c := range v.pages.Coverage {
		if c.Since == "" {
			return "", false
		}
		if c.Since.Compare(since) > 0 {
			since = c.Since
		}
	}
	return since, since != ""
}
