// Package source reads a cluster: it lists and watches collections, finds what a watch missed, and hands on an
// ordered stream of changes and positions. It knows the API server's protocol and nothing of Kafka or SQL.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/change"
)

// Options are the same for all streams of a process.
type Options struct {
	PageSize     int           // objects a list page
	WatchTimeout time.Duration // how long the server is asked to keep a watch open: this to twice this, by chance
	Quiet        time.Duration // a watch that says nothing for so long is half open
	FreshTries   int           // how often a 410 is answered by a fresh connection before the list
	MaxBackoff   time.Duration
	MetadataOnly bool
	Backfill     *Backfill // nil: off
	Distrust     string    // why the position can't be trusted: list and compare first
}

// DefaultOptions are the production settings.
func DefaultOptions() Options {
	return Options{PageSize: 500, WatchTimeout: 5 * time.Minute, Quiet: 3 * time.Minute, FreshTries: 2, MaxBackoff: 30 * time.Second}
}

// Stream keeps one collection in the log: a machine of named states with one step function.
//
//	loading → watching            a position is known
//	loading → listing             none is: the first snapshot
//	listing → watching            the list is complete
//	watching → watching           the connection ended; resume from the position, without a list
//	watching → expired            410
//	expired → watching            another server still holds the position
//	expired → backfilling         none does: recover what was missed (recover.go, backfill.go)
//	backfilling → listing         it can't be recovered
//	expired → listing             backfill is off: list and compare with the inventory (reconcile.go)
//	any → absent → listing        the resource is removed from the API, and comes back
//
// Any error waits with backoff and then repeats the state that it came from; the position is never moved by an
// error, and every item that was sent is remembered in the index, so a repeated list emits nothing twice.
type Stream struct {
	stream    *change.Stream
	group     string
	client    *Client
	options   Options
	inventory Inventory
	out       Output
	observer  Observer
	log       *slog.Logger

	state    State
	reason   string // why the state was entered
	index    *index
	position string // resourceVersion up to which everything was sent; empty before the first list has ended
	fresh    int    // fresh connections tried since the last event
	gap      *change.Gap
	retry    *backoff.ExponentialBackOff

	mu        sync.Mutex
	want      *change.Resource // nil: removed from the API
	interrupt context.CancelCauseFunc
}

// NewStream prepares a stream; Run starts it.
func NewStream(s *change.Stream, client *Client, options Options, inventory Inventory, out Output, observer Observer, log *slog.Logger) *Stream {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval = 200 * time.Millisecond
	retry.MaxInterval = options.MaxBackoff
	resource := s.Resource
	return &Stream{stream: s, group: s.Resource.Group, client: client, options: options, inventory: inventory, out: out, observer: observer,
		log: log.With("stream", s.ID()), state: StateLoading, retry: retry, want: &resource}
}

// ID is the stream's id.
func (s *Stream) ID() string { return s.stream.ID() }

// Group is the API group of the stream's resource.
func (s *Stream) Group() string { return s.group }

var errResourceChanged = errors.New("the API server serves the resource in another way now")

// SetResource tells what discovery says of the resource now: another version to read it by, or nil when the API
// server does not serve it any more.
func (s *Stream) SetResource(r *change.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.want == r || s.want != nil && r != nil && *s.want == *r {
		return
	}
	s.want = r
	if s.interrupt != nil {
		s.interrupt(errResourceChanged)
	}
}

// Run works until the context ends or the output refuses.
func (s *Stream) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := s.stepOnce(ctx)
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
func (s *Stream) stepOnce(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	s.mu.Lock()
	s.interrupt = cancel
	want := s.want
	s.mu.Unlock()
	if err := s.adopt(ctx, want); err != nil {
		return err
	}
	next, err := s.step(ctx)
	if errors.Is(context.Cause(ctx), errResourceChanged) && parent.Err() == nil {
		return nil // the next step adopts it
	}
	if err != nil {
		return err
	}
	s.state = next
	return nil
}

func (s *Stream) step(ctx context.Context) (State, error) {
	s.observer.StreamState(s.ID(), s.state, s.reason, nil)
	switch s.state {
	case StateLoading:
		return s.load(ctx)
	case StateListing:
		return s.list(ctx)
	case StateWatching:
		return s.watch(ctx)
	case StateExpired:
		return s.expired(), nil
	case StateBackfilling:
		return s.backfill(ctx)
	case StateAbsent:
		<-ctx.Done()
		return StateAbsent, nil
	}
	return s.state, fmt.Errorf("unknown state %q", s.state)
}

func (s *Stream) enter(next State, reason string) State {
	s.reason = reason
	s.log.Debug("state", "from", s.state, "to", next, "reason", reason, "position", s.position)
	return next
}

// load reads where the last owner stopped.
func (s *Stream) load(ctx context.Context) (State, error) {
	version, ok, err := s.inventory.Position(ctx, s.ID())
	if err != nil {
		return s.state, fmt.Errorf("load the position of %s: %w", s.ID(), err)
	}
	x := newIndex()
	err = s.inventory.Objects(ctx, s.ID(), func(key, uid, version string) error {
		x.put(key, uid, version)
		return nil
	})
	if err != nil {
		return s.state, fmt.Errorf("load the inventory of %s: %w", s.ID(), err)
	}
	s.index, s.position = x, version
	if !ok || version == "" {
		return s.enter(StateListing, "first snapshot"), nil
	}
	if s.options.Distrust != "" {
		s.gap = &change.Gap{ID: change.GapID(s.ID(), version), From: version}
		return s.enter(StateListing, "relist: "+s.options.Distrust), nil
	}
	s.log.Info("resuming", "position", version, "objects", x.len())
	return s.enter(StateWatching, "resume at resourceVersion "+version), nil
}

// adopt makes the stream read what discovery says: under another version, or not at all.
func (s *Stream) adopt(ctx context.Context, want *change.Resource) error {
	if s.state == StateLoading {
		return nil
	}
	switch {
	case want == nil && s.state != StateAbsent:
		return s.depart(ctx)
	case want != nil && s.state == StateAbsent:
		s.stream.Resource = *want
		s.state = s.enter(StateListing, "the resource is served again")
	case want != nil && s.stream.Resource != *want:
		s.log.Info("reading another version", "from", s.stream.Resource.APIVersion(), "to", want.APIVersion())
		s.stream = change.NewStream(*want, s.stream.Namespace, s.stream.LabelSelector, s.stream.FieldSelector)
	}
	return nil
}

// depart ends the log of a resource that was removed from the API: its objects went with it.
func (s *Stream) depart(ctx context.Context) error {
	s.index.startPass()
	for _, key := range s.index.unseen() {
		if err := s.sendDelete(ctx, key, true); err != nil {
			return err
		}
	}
	s.state = s.enter(StateAbsent, "the resource was removed from the API")
	s.log.Info("the resource was removed from the API; its objects are recorded as deleted")
	return nil
}

// watch reads events from the position until the connection ends.
func (s *Stream) watch(ctx context.Context) (State, error) {
	seconds := int(s.options.WatchTimeout.Seconds() * (1 + rand.Float64()))
	w, err := s.client.watch(ctx, s.stream, s.options.MetadataOnly, s.position, max(seconds, 1), s.options.Quiet)
	if isGone(err) {
		return s.enter(StateExpired, fmt.Sprintf("410 at resourceVersion %s: %s", s.position, reasonText(err))), nil
	}
	if err != nil {
		return s.state, fmt.Errorf("watch %s from resourceVersion %s: %w", s.ID(), s.position, err)
	}
	defer w.close()
	started, events := time.Now(), 0
	for {
		e, err := w.next()
		if err == nil {
			err = s.handle(ctx, e)
			events++
		}
		switch {
		case err == nil:
			continue
		case isGone(err):
			return s.enter(StateExpired, fmt.Sprintf("410 at resourceVersion %s: %s", s.position, reasonText(err))), nil
		case errors.Is(err, io.EOF) && (events > 0 || time.Since(started) > time.Second):
			s.observer.Reconnected(s.ID(), "the server ended the watch")
			return s.enter(StateWatching, "the server ended the watch"), nil
		default:
			return s.state, fmt.Errorf("watch %s from resourceVersion %s: %w", s.ID(), s.position, err)
		}
	}
}

// expired answers a 410: first by a fresh connection, which may reach another API server that still holds the
// position, then by a list.
func (s *Stream) expired() State {
	if s.fresh < s.options.FreshTries {
		s.fresh++
		client, err := s.client.fresh()
		if err == nil {
			s.client = client
			return s.enter(StateWatching, "410: the same position on a fresh connection")
		}
	}
	s.fresh = 0
	if s.gap == nil {
		s.gap = &change.Gap{ID: change.GapID(s.ID(), s.position), From: s.position}
	}
	s.log.Warn("relist", "reason", s.reason, "position", s.position)
	s.observer.Reconnected(s.ID(), "relist: 410")
	if s.options.Backfill != nil {
		return s.enter(StateBackfilling, s.reason)
	}
	return s.enter(StateListing, "relist: "+s.reason)
}

// handle takes one watch event.
func (s *Stream) handle(ctx context.Context, e event) error {
	switch e.kind {
	case "ADDED", "MODIFIED", "DELETED":
		if err := s.handleObject(ctx, e); err != nil {
			return err
		}
	case "BOOKMARK":
		version, err := e.bookmarkVersion()
		if err != nil {
			return err
		}
		if err := s.advance(ctx, version); err != nil {
			return err
		}
	case "ERROR":
		return e.statusOf()
	default:
		s.log.Warn("an event of an unknown type is passed over", "type", e.kind)
	}
	s.alive()
	return nil
}

// alive notes that the server delivers: retries start small again.
func (s *Stream) alive() {
	s.fresh = 0
	s.retry.Reset()
}

// handleObject sends the change that an event tells of, unless the log has it or something newer already.
func (s *Stream) handleObject(ctx context.Context, e event) error {
	o, err := parseObject(e.object)
	if err != nil {
		return s.sendMalformed(ctx, e.line, err)
	}
	old, exists := s.index.get(o.key())
	if exists && !old.newer(o.version) {
		return s.advance(ctx, o.version)
	}
	o.raw = append([]byte(nil), o.withType(&s.stream.Resource)...) // the event's bytes are the reader's
	switch {
	case e.kind == "DELETED" && !exists:
		return s.advance(ctx, o.version)
	case e.kind == "DELETED" && old.uid == o.uid:
		return s.send(ctx, s.change(change.Delete, &o), o.version)
	case e.kind == "DELETED": // of another object than the one under this name: that one is newer
		return s.advance(ctx, o.version)
	}
	return s.sendObject(ctx, &o, old, exists, o.version)
}

// advance moves the position without a change.
func (s *Stream) advance(ctx context.Context, version string) error {
	if change.CompareVersions(version, s.position) <= 0 {
		return nil
	}
	return s.emit(ctx, Item{Version: version})
}

// pause reports an error and waits: as long as the server asks, or longer each time.
func (s *Stream) pause(ctx context.Context, err error) {
	delay := s.retry.NextBackOff()
	if isRefused(err) {
		delay = max(delay, min(5*time.Second, s.options.MaxBackoff))
	}
	if after := retryAfter(err); after > 0 {
		delay = after + time.Duration(rand.Int64N(int64(after/4)+1))
	}
	s.observer.StreamState(s.ID(), StateWaiting, s.reason, err)
	s.log.Warn("will try again", "state", s.state, "in", delay.Round(time.Millisecond), "error", err)
	select {
	case <-ctx.Done():
	case <-time.After(delay):
	case <-s.resourceChanged():
	}
}

// resourceChanged is closed when SetResource interrupts a pause.
func (s *Stream) resourceChanged() <-chan struct{} {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.mu.Lock()
	s.interrupt = cancel
	s.mu.Unlock()
	return ctx.Done()
}
