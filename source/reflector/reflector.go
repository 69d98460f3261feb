// Package reflector keeps one collection in the log. It lists and watches the collection, recovers or infers what a watch
// missed, and emits changes and positions in order. It decides how a stream answers each response of the API server, and
// knows nothing of Kafka or SQL. Start at the states in reflector.go.
package reflector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/change"
	"kubecdc/internal/kubeapi"
	"kubecdc/internal/wait"
	"kubecdc/redact"
	"kubecdc/source/apiclient"
	"kubecdc/source/discovery"
	"kubecdc/source/known"
	"kubecdc/source/recovery"
)

// Options are the same for all streams of a process.
type Options struct {
	PageSize     int           // objects a list page
	Watermark    time.Duration // how often a quiet stream has to confirm its position, or 0 for each bookmark of the server
	WatchTimeout time.Duration // the timeout of a watch is a random time between this and twice this
	Quiet        time.Duration // a connection without a byte for so long is half open
	FreshTries   int           // how many fresh connections are tried after a 410, before recovery or a list
	MaxBackoff   time.Duration
	MetadataOnly bool
	Redactor     *redact.Redactor // hides parts of objects, or is nil
	Masked       bool             // updates may be left out of the log
	// LostUpTo is the version up to which the log has lost records of the stream, if its position is change.UnknownVersion. The
	// log is compared with the collection as it was then. Empty: it is not known, or nothing was lost.
	LostUpTo  change.ResourceVersion
	Recovery  *Recovery       // nil: off
	Lists     *ListLimiter    // nil: all streams may list at once
	Streaming *StreamingLists // nil: every list is read in pages
	Restores  Restores        // nil: a stream tells no other one that etcd was restored
	Proofs    time.Duration   // how often a stream is compared with the API server (proving.go), or 0 for never
	Stored    bool            // bodies are stored, and can be compared
}

// DefaultOptions are the production settings.
func DefaultOptions() Options {
	return Options{PageSize: 500, WatchTimeout: 10 * time.Minute, Quiet: apiclient.DefaultIdle, FreshTries: 2,
		MaxBackoff: 30 * time.Second}
}

// Reflector exports one collection to the log. It is in one state at a time. Each state is a value with its own data (the
// interface state), and transitions.go has the table of transitions.
//
// After an error the reflector waits with backoff and repeats the state. An error never moves the position, and every object
// that was emitted is among the known objects, so a repeated list emits nothing twice.
type Reflector struct {
	stream    *change.Stream
	client    *apiclient.Client
	options   Options
	inventory Inventory
	out       Output
	observer  Observer
	log       *slog.Logger

	state  state
	reason string // why the state was entered

	// turn has an element while somebody uses the stream's data: Run, except while it waits for an event of an open watch. Then
	// others may, for a moment (turn.go).
	turn    chan struct{}
	known   *known.Set
	objects atomic.Int64  // how many are known, for Objects
	current change.Change // the change that is being emitted
	progress
	lately      lately // what was watched of custom resources (schema.go)
	recent      recent
	ownVersions bool // an aggregated API server may give the versions
	endings     endings
	unversioned unversioned
	unmoved     error // nil: no object has changed at a constant resourceVersion
	following   int64 // the last restore of etcd that the stream follows and has not followed, or 0 (restores.go)

	// the connection of a watch that waits for an event, while all that has come was emitted
	waitsOn   atomic.Pointer[apiclient.Connection]
	snapshots atomic.Int32 // on demand, that run

	participant *recovery.Participant // among the recoveries of the process, or nil if recovery is off

	shared    *apiclient.Client // the client on the shared connections. The client is another one after renewClient
	compacted bool              // the server compacted the position after an empty watch (comparison.go)
	bookmarks bool              // the server sends bookmarks of this resource

	refusal  *refusal // nil: the server does not refuse the stream
	retry    *backoff.ExponentialBackOff
	pace     *apiclient.Pace // limits the pace of lists
	failures failures
	relists  int    // in a row, without a watch between them that lasted
	rejected string // the logged reason why the resource can't be exported, until the process ends

	mu        sync.Mutex
	want      *change.Resource // nil: removed from the API
	interrupt context.CancelCauseFunc
	emitting  bool  // what must not be interrupted
	deferred  error // why the step is to be interrupted after that
	// Restores of etcd that were reported to the stream and that it does not follow yet, and the number of the last one.
	toFollow      []restore
	newestRestore int64
}

// New prepares a stream, which Run starts.
func New(s *change.Stream, client *apiclient.Client, options Options, inventory Inventory, out Output, observer Observer,
	log *slog.Logger) *Reflector {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval = 200 * time.Millisecond
	retry.MaxInterval = options.MaxBackoff
	resource := s.Resource
	client = client.With(options.Quiet, options.Redactor != nil)
	r := &Reflector{stream: s, client: client, shared: client, options: options, inventory: inventory,
		out: out, observer: observer, log: log.With("stream", s.ID()), retry: retry,
		pace: apiclient.NewPace(options.PageSize), want: &resource, turn: make(chan struct{}, 1)}
	if options.Recovery != nil {
		r.participant = options.Recovery.coordinator.Join(s, leased(resource))
	}
	r.state = &loading{r}
	return r
}

func (r *Reflector) ID() change.StreamID { return r.stream.ID() }

// Position is how far the stream was emitted. It may be called when Run has returned.
func (r *Reflector) Position() change.ResourceVersion { return r.position }

// Objects is how many objects are known. It may be called at any time.
func (r *Reflector) Objects() int64 { return r.objects.Load() }

// Connection is a connection to the API server.
type Connection = apiclient.Connection

// WaitsOn reports whether the stream's watch used the connection before a time, and the stream has emitted every event that has
// come. It may be called at any time.
func (r *Reflector) WaitsOn(c *Connection, since time.Time) bool {
	return r.waitsOn.Load().Shows(c, since)
}

// Run works until the context ends, the output returns an error, or the API server's address leads to another cluster
// (*apiclient.OtherClusterError).
func (r *Reflector) Run(ctx context.Context) error {
	r.turn <- struct{}{}
	stopProving := r.startProving(ctx)
	defer func() {
		<-r.turn
		stopProving()
	}()
	for ctx.Err() == nil {
		err := r.stepOnce(ctx)
		if apiclient.IsRefused(err) || errors.Is(err, apiclient.ErrUnsupported) {
			err = r.recordRefusal(ctx, err)
		}
		if output, ok := errors.AsType[*outputError](err); ok {
			return output.err
		}
		if other, ok := errors.AsType[*apiclient.OtherClusterError](err); ok {
			return other
		}
		if err != nil && ctx.Err() == nil {
			r.pause(ctx, err)
		}
	}
	return ctx.Err()
}

// stepOnce runs one step, which interruptStep can end.
func (r *Reflector) stepOnce(parent context.Context) error {
	ctx, cancel := r.interruptible(parent)
	defer cancel(nil)
	if err := r.applyResource(ctx); err != nil {
		return err
	}
	if err := r.followRestores(ctx); err != nil {
		return err
	}
	if r.unmoved != nil {
		return r.unmoved
	}
	aggregated, known := discovery.KnownAggregated(r.client, r.stream.Resource)
	r.ownVersions = aggregated || !known
	r.observer.StreamState(r.ID(), r.state.name(), nil)
	next, err := r.state.step(ctx)
	cause := context.Cause(ctx)
	if interrupted := errors.Is(cause, errResourceChanged) || errors.Is(cause, errRestored); interrupted && err != nil &&
		parent.Err() == nil {
		return nil // the next step applies it, in the state that was interrupted
	}
	r.state = next
	return err
}

// state is one state of a stream, with the data that only this state needs. A step does the work of the state and returns the
// next state: itself, if there is more to do or after an error.
type state interface {
	name() change.StreamState
	step(ctx context.Context) (state, error)
}

// enter leads to the next state, by one of the transitions of the table. A transition that the table lacks is a defect, but the
// stream goes on.
func (r *Reflector) enter(next state, reason string) state {
	if from, to := r.state.name(), next.name(); !allowed(from, to) {
		r.log.Error("a stream takes a transition that the protocol does not have: please report it", "from", from, "to", to)
	}
	r.reason = reason
	r.log.Debug("state", "from", r.state.name(), "to", next.name(), "reason", reason, "position", r.position)
	return next
}

func (r *Reflector) gapFrom(version change.ResourceVersion) *change.Gap {
	return &change.Gap{ID: change.GapID(r.ID(), version), From: version}
}

// unsupportedPause is the time between two tries of a resource that can't be exported. Only another version of its API server
// can change that.
const unsupportedPause = 10 * time.Minute

// unsupported reports that the resource can't be exported, by one log line and by the stream's state.
func (r *Reflector) unsupported(err error) (pause time.Duration) {
	err = fmt.Errorf("%s can't be exported, since the order of its changes is not known: leave it out of KUBECDC_RESOURCES: %w",
		r.stream.Resource.ID(), err)
	r.observer.StreamState(r.ID(), change.StateUnsupported, err)
	if r.rejected != err.Error() {
		r.rejected = err.Error()
		r.log.Error("the resource can't be exported; it is tried again, the others go on", "every", unsupportedPause, "error",
			err)
	}
	return unsupportedPause
}

// trustPause is the longest time between two tries while the API server's certificate is not trusted: the file of its authorities
// may change.
const trustPause = 5 * time.Second

// resetBackoff lets the next pause be short, since the server delivers.
func (r *Reflector) resetBackoff() {
	if r.failures.inRow > 0 {
		r.retry.Reset()
		r.failures = failures{}
	}
}

// pause reports an error and waits: for the server's Retry-After, or longer each time.
func (r *Reflector) pause(ctx context.Context, err error) {
	delay := r.retry.NextBackOff()
	r.failures.inRow++
	refused := apiclient.IsRefused(err)
	if refused && r.failures.inRow > 1 {
		delay = max(delay, min(5*time.Second, r.options.MaxBackoff))
	}
	if after := apiclient.RetryAfter(err); after > 0 {
		delay = after + time.Duration(rand.Int64N(int64(after/4)+1))
	}
	if kubeapi.IsUntrusted(err) {
		delay = min(delay, trustPause)
	}
	if errors.Is(err, apiclient.ErrIdle) {
		r.renewClient() // what is sent on the connection is lost
	}
	if errors.Is(err, apiclient.ErrUnsupported) {
		delay = r.unsupported(err)
	} else if r.failures.inRow == 1 && (refused || apiclient.IsConnectionEnd(err)) {
		// Connections end, and what was just installed is not served for a moment: only the second time in a row is a failure.
		r.log.Info("a request has failed once", "state", r.state.name(), "again in", delay.Round(time.Millisecond), "error", err)
	} else {
		state := change.StateWaiting
		if refused {
			state = change.StateRefused
		}
		r.observer.StreamState(r.ID(), state, err)
		if due, skipped := r.failures.due(err); due {
			r.log.Warn("will try again", "state", r.state.name(), "in", delay.Round(time.Millisecond), "error", err,
				"not logged since", skipped)
		}
	}
	ctx, cancel := r.interruptible(ctx)
	defer cancel(nil)
	_ = wait.For(ctx, delay)
}
