// Package reflector keeps one collection in the log: it lists and watches the collection, recovers or infers what a watch
// missed, and emits changes and positions in order. It decides what each answer of the API server means for the stream, and
// knows nothing of Kafka or SQL. Start reading at the states in reflector.go.
package reflector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/change"
	"kubecdc/redact"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// Options are the same for all streams of a process.
type Options struct {
	PageSize     int           // objects a list page
	Watermark    time.Duration // how often a quiet stream is to confirm its position; 0: as the server's bookmarks come
	WatchTimeout time.Duration // how long the server is asked to keep a watch open: this to twice this, by chance
	Quiet        time.Duration // a watch that says nothing for so long is half open
	FreshTries   int           // how often a 410 is answered by a fresh connection before the list
	MaxBackoff   time.Duration
	MetadataOnly bool
	Redactor     *redact.Redactor // what is told of objects; nil: all
	// StreamingLists: auto, on or off (watchlist.go).
	StreamingLists string
	Recovery       *Recovery    // nil: off
	Lists          *ListLimiter // to list; nil: all at once
}

// DefaultOptions are the production settings.
func DefaultOptions() Options {
	return Options{PageSize: 500, WatchTimeout: 5 * time.Minute, Quiet: apiclient.DefaultIdle, FreshTries: 2, MaxBackoff: 30 * time.Second,
		StreamingLists: StreamingAuto}
}

// Reflector keeps one collection in the log. It is in one state at a time, each a value with its own data (the interface
// state); transitions.go has the table of what leads where.
//
// After an error it waits with backoff and repeats the state. An error never moves the position, and every item that was
// emitted is among the known objects, so a repeated list emits nothing twice.
type Reflector struct {
	stream    *change.Stream
	group     string
	client    *apiclient.Client
	options   Options
	inventory Inventory
	out       Output
	observer  Observer
	log       *slog.Logger

	state  state
	reason string // why the state was entered

	known    *known.Set
	position change.ResourceVersion // resourceVersion up to which everything was emitted; empty before the first list has ended
	cursor   change.ResourceVersion // where the watch goes on: the position, except while the stream catches up with a list
	held     change.ResourceVersion // the revision of the last deletion, while more of it may follow (leased.go); else empty
	current  change.Change          // the one that is being emitted
	ended    *change.Position       // with which the stream ended, until the log says that it goes on

	shared    *apiclient.Client // client, unless a fresh one was needed
	compacted bool              // the server compacted a position that did not move in silence (compare_open.go)
	bookmarks bool              // the server sends them for this resource

	refusal  *refusal // nil: the server answers
	retry    *backoff.ExponentialBackOff
	failures int // in a row
	relists  int // in a row, with no watch between that delivered
	warned   warnings
	rejected string // why the resource can't be exported, as it was logged

	mu        sync.Mutex
	want      *change.Resource // nil: removed from the API
	interrupt context.CancelCauseFunc
}

// New prepares a stream; Run starts it.
func New(s *change.Stream, client *apiclient.Client, options Options, inventory Inventory, out Output, observer Observer, log *slog.Logger) *Reflector {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval = 200 * time.Millisecond
	retry.MaxInterval = options.MaxBackoff
	resource := s.Resource
	client = client.With(options.Quiet, options.Redactor != nil)
	r := &Reflector{stream: s, group: s.Resource.Group, client: client, shared: client, options: options, inventory: inventory, out: out, observer: observer,
		log: log.With("stream", s.ID()), retry: retry, want: &resource}
	r.state = &loading{r}
	return r
}

// ID is the stream's id.
func (s *Reflector) ID() change.StreamID { return s.stream.ID() }

// Group is the API group of the stream's resource.
func (s *Reflector) Group() string { return s.group }

// Run works until the context ends or the output refuses.
func (s *Reflector) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := s.stepOnce(ctx)
		if apiclient.IsRefused(err) || errors.Is(err, apiclient.ErrUnsupported) {
			err = s.noteRefusal(ctx, err)
		}
		var refused *outputError
		if errors.As(err, &refused) {
			return refused.err
		}
		if err != nil && ctx.Err() == nil {
			s.pause(ctx, err)
		}
	}
	return ctx.Err()
}

// stepOnce runs one step under a context that SetResource can end.
func (s *Reflector) stepOnce(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	s.mu.Lock()
	s.interrupt = cancel
	want := s.want
	s.mu.Unlock()
	if err := s.adopt(ctx, want); err != nil {
		return err
	}
	s.observer.StreamState(s.ID(), s.state.name(), s.reason, nil)
	next, err := s.state.step(ctx)
	if errors.Is(context.Cause(ctx), errResourceChanged) && parent.Err() == nil {
		return nil // the next step adopts it
	}
	s.state = next
	return err
}

// state is what a stream is doing, with the data that only this state needs. A step does the work of the state and returns
// the next one: itself, if there is more to do, or after an error.
type state interface {
	name() State
	step(ctx context.Context) (state, error)
}

func (s *Reflector) enter(next state, reason string) state {
	s.reason = reason
	s.log.Debug("state", "from", s.state.name(), "to", next.name(), "reason", reason, "position", s.position)
	return next
}

// gapFrom describes a gap that begins at a version.
func (s *Reflector) gapFrom(version change.ResourceVersion) *change.Gap {
	return &change.Gap{ID: change.GapID(s.ID(), version), From: version}
}

// unsupportedPause is how long a resource that can't be exported is left alone: what mends it is another version of its
// API server.
const unsupportedPause = 10 * time.Minute

// unsupported reports that the resource can't be exported: in the log once, and as the stream's state until it can be.
func (s *Reflector) unsupported(err error) (pause time.Duration) {
	err = fmt.Errorf("%s can't be exported, since it can't be told what changed, in which order: leave it out of KUBECDC_RESOURCES: %w", s.stream.Resource.ID(), err)
	s.observer.StreamState(s.ID(), StateUnsupported, s.reason, err)
	if s.rejected != err.Error() {
		s.rejected = err.Error()
		s.log.Error("the resource can't be exported; it is tried again, the others go on", "every", unsupportedPause, "error", err)
	}
	return unsupportedPause
}

// pause reports an error and waits: as long as the server asks, or longer each time.
func (s *Reflector) pause(ctx context.Context, err error) {
	delay := s.retry.NextBackOff()
	if apiclient.IsRefused(err) {
		delay = max(delay, min(5*time.Second, s.options.MaxBackoff))
	}
	if after := apiclient.RetryAfter(err); after > 0 {
		delay = after + time.Duration(rand.Int64N(int64(after/4)+1))
	}
	s.failures++
	if errors.Is(err, apiclient.ErrIdle) {
		s.renewClient() // the connection swallows what is sent on it
	}
	if errors.Is(err, apiclient.ErrUnsupported) {
		delay = s.unsupported(err)
	} else if apiclient.IsConnectionEnd(err) && s.failures == 1 { // connections end; it is no failure until it repeats
		s.log.Info("the connection was lost", "state", s.state.name(), "again in", delay.Round(time.Millisecond), "error", err)
	} else {
		s.observer.StreamState(s.ID(), StateWaiting, s.reason, err)
		if due, muted := s.warned.due(err); due {
			s.log.Warn("will try again", "state", s.state.name(), "in", delay.Round(time.Millisecond), "error", err, "not logged since", muted)
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(delay):
	case <-s.resourceChanged():
	}
}
