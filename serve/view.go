package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/query"
	"kubecdc/sinks"
)

// view is the objects of one resource at a moment: in one namespace or in all, of one name or of all.
type view struct {
	id      string // of the moment and the objects
	cut     *sinks.Cut
	state   *query.State
	keys    []string // in etcd's order: bytewise by namespace/name
	version change.ResourceVersion
	at      time.Time
	missing []string
	custom  func() (map[string]*served, error) // the resources of a view of CRDs
}

func emptyView() *view {
	v := &view{}
	v.custom = sync.OnceValues(v.customResources)
	return v
}

// views keeps the last views, which many requests share: pages of a list, and the catalog.
type views struct {
	log    sinks.Reader
	mu     sync.Mutex
	recent []*pending // the last one used is last
	held   int        // objects
}

// pending is a view that is read once, whoever waits for it.
type pending struct {
	id   string
	done chan struct{}
	view *view
	err  error
	read time.Time
}

// lacking is for how long a view is held that may lack something: the log may get it.
const lacking = 2 * time.Second

// stale reports whether a view must be read again.
func (p *pending) stale() bool {
	select {
	case <-p.done:
		return p.view != nil && len(p.view.missing) > 0 && time.Since(p.read) > lacking
	default:
		return false
	}
}

// mostObjects bounds the objects of views that are kept, besides the last one.
const mostObjects = 200_000

// at returns the view of a request. It is the same for all requests of a moment, and for those of the end of the log until that moves.
func (v *views) at(ctx context.Context, q *request, resource string) (*view, error) {
	target := q.target
	if q.resourceVersion.Valid() && q.match == string(metav1.ResourceVersionMatchExact) {
		target = query.Target{Version: q.resourceVersion}
	}
	of := sinks.Objects{Resources: []string{resource}, Namespace: q.namespace}
	rest := " " + q.namespace + "/" + resource
	if name := q.only(); name != "" {
		of.Names, rest = []string{resource + "/" + name}, rest+"/"+name
	}
	id, cut := target.String()+rest, (*sinks.Cut)(nil)
	if target == (query.Target{}) {
		end, err := v.log.CutAt(ctx, time.Time{})
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(end)
		if err != nil {
			return nil, err
		}
		id, cut = string(text)+rest, &end
	}
	if q.from != "" {
		token, err := parseToken(q.from)
		if err != nil {
			return nil, err
		}
		if found := v.find(token.View); found != nil {
			return found.wait(ctx)
		}
		if cut != nil && token.View != id {
			return nil, apierrors.NewResourceExpired("the list that this continue token is of is not held any more: begin it again")
		}
	}
	return v.read(ctx, id, cut, target, of)
}

func (p *pending) wait(ctx context.Context) (*view, error) {
	select {
	case <-p.done:
		return p.view, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// find returns a view that is held, and makes it the last one used.
func (v *views) find(id string) *pending {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.use(id)
}

// use is find for a caller that holds the lock.
func (v *views) use(id string) *pending {
	i := slices.IndexFunc(v.recent, func(p *pending) bool { return p.id == id })
	if i < 0 {
		return nil
	}
	p := v.recent[i]
	v.recent = append(slices.Delete(v.recent, i, i+1), p)
	return p
}

// read reads a view, unless it is held or being read.
func (v *views) read(ctx context.Context, id string, cut *sinks.Cut, target query.Target, of sinks.Objects) (*view, error) {
	v.mu.Lock()
	if p := v.use(id); p != nil && !p.stale() {
		v.mu.Unlock()
		return p.wait(ctx)
	} else if p != nil {
		v.drop(p)
	}
	p := &pending{read: time.Now(), id: id, done: make(chan struct{})}
	v.recent = append(v.recent, p)
	v.mu.Unlock()
	p.view, p.err = newView(context.WithoutCancel(ctx), v.log, id, target, of)
	if p.view != nil {
		p.view.cut = cut
	}
	close(p.done)
	v.mu.Lock()
	defer v.mu.Unlock()
	if p.err != nil {
		v.drop(p)
		return nil, p.err
	}
	v.forget(len(p.view.keys))
	return p.view, nil
}

// drop forgets one view. Its caller holds the lock.
func (v *views) drop(p *pending) {
	v.recent = slices.DeleteFunc(v.recent, func(other *pending) bool { return other == p })
	if p.view != nil {
		v.held -= len(p.view.keys)
	}
}

// forget drops the views that were not used for longest.
func (v *views) forget(more int) {
	v.held += more
	v.recent = slices.DeleteFunc(v.recent, func(p *pending) bool {
		select {
		case <-p.done:
			if p.view == nil || v.held <= mostObjects || p == v.recent[len(v.recent)-1] {
				return false
			}
			v.held -= len(p.view.keys)
			return true
		default:
			return false
		}
	})
}

func newView(ctx context.Context, log sinks.Reader, id string, target query.Target, of sinks.Objects) (*view, error) {
	states, err := query.ReadStates(ctx, log, query.Question{Objects: of}, target)
	if errors.Is(err, sinks.ErrNotRetained) {
		return nil, expired(err)
	}
	if err != nil {
		return nil, err
	}
	v := emptyView()
	v.id, v.state, v.missing = id, states[0], states[0].Missing
	v.keys = v.state.Keys()
	unlisted := len(v.state.Coverage) > 0
	for _, c := range v.state.Coverage {
		if unlisted = unlisted && c.At == ""; c.At == "" {
			continue
		}
		if v.version == "" || c.At.Compare(v.version) < 0 {
			v.version = c.At // up to there all streams are known
		}
		if c.Known.After(v.at) {
			v.at = c.Known
		}
	}
	if unlisted && len(v.keys) == 0 {
		return nil, expired(fmt.Errorf("%s", v.missing[0]))
	}
	if !target.Happened.IsZero() {
		v.at = target.Happened
	}
	return v, nil
}

// since is the version from which on the log has every change of all streams.
func (v *view) since() (since change.ResourceVersion, known bool) {
	for _, c := range v.state.Coverage {
		if c.Since == "" {
			return "", false
		}
		if c.Since.Compare(since) > 0 {
			since = c.Since
		}
	}
	return since, since != ""
}

// expired is 410, with what the log does have.
func expired(err error) error {
	status := apierrors.NewResourceExpired("the log can't tell: " + err.Error()).ErrStatus
	status.Code = http.StatusGone
	return &apierrors.StatusError{ErrStatus: status}
}
