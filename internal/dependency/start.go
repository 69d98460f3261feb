package dependency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/internal/fault"
)

// Step is one request to one server at the start.
type Step struct {
	Awaited    string        // what is waited for: "the API server to say which cluster it is"
	Dependency string        // Sink, Checkpoint or APIServer, or empty
	Address    string        // the server's address, without passwords
	Limit      time.Duration // time limit of one attempt, or 0
	Before     string        // what has to end before the server can answer, or empty
	Upgrades   bool          // tables of an older release are brought up to date
}

func (s Step) what() string {
	if s.Address == "" {
		return s.Awaited
	}
	return s.Awaited + " (" + s.Address + ")"
}

// silence describes an attempt without an answer.
func (s Step) silence() string {
	if s.Before != "" {
		return "no answer yet; " + s.Before
	}
	return "no answer yet"
}

// Upgrade is called before the tables of an older release are brought up to date, from one version to another. That takes long,
// and must not begin again. So it returns the context of the attempt without the step's limit. A step that does not upgrade gets
// an error, because the older release may still run.
func Upgrade(ctx context.Context, from, to int) (context.Context, error) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	switch {
	case !ok:
		return ctx, nil
	case !a.step.Upgrades:
		return nil, &fault.OlderTablesError{Current: from, Known: to}
	}
	a.upgrades.Store(true)
	return a.outer, nil
}

type attemptKey struct{}

var errUpgrading = errors.New("its tables are brought up to date, which takes minutes if they are large")

// SilentError is the error of an attempt that did not end within its limit.
type SilentError struct {
	Step  Step
	After time.Duration
	err   error // the attempt's error, if it ended at the limit
}

func (e *SilentError) Error() string {
	text := fmt.Sprintf("waited %s for %s: %s", e.After, e.Step.what(), e.Step.silence())
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

// Unwrap makes SilentError a deadline error.
func (e *SilentError) Unwrap() error { return context.DeadlineExceeded }

// attempt is one call in its own goroutine, since client-go runs credential plugins without a context.
type attempt struct {
	step     Step
	outer    context.Context // without the limit
	ctx      context.Context
	cancel   context.CancelFunc
	ended    chan error
	upgrades atomic.Bool // it has no limit
}

func (s Step) begin(ctx context.Context, do func(context.Context) error) *attempt {
	a := &attempt{step: s, outer: ctx, ended: make(chan error, 1)}
	if s.Limit > 0 {
		a.ctx, a.cancel = context.WithTimeout(ctx, s.Limit)
	} else {
		a.ctx, a.cancel = context.WithCancel(ctx)
	}
	go func() { a.ended <- do(context.WithValue(a.ctx, attemptKey{}, a)) }()
	return a
}

// slack is the time that an attempt has to return after its limit.
const slack = 200 * time.Millisecond

// Once makes one attempt, and returns at its limit, or when ctx ends, even if the attempt does not. It waits
// longer for an Upgrade.
func Once(ctx context.Context, step Step, do func(context.Context) error) error {
	a := step.begin(ctx, do)
	defer a.cancel()
	var late <-chan time.Time
	if step.Limit > 0 {
		late = time.After(step.Limit + slack)
	}
	for {
		select {
		case err := <-a.ended:
			return a.judge(ctx, err)
		case <-late:
			if !a.upgrades.Load() {
				return &SilentError{Step: step, After: step.Limit}
			}
			late = nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// judge returns a SilentError for an attempt that ended at its limit, and other errors as they are.
func (a *attempt) judge(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || a.ctx.Err() == nil {
		return err
	}
	return &SilentError{Step: a.step, After: a.step.Limit, err: err}
}

// Steps runs the steps of one start. A nil *Steps makes one attempt at each, without a time limit.
type Steps struct {
	log    *slog.Logger
	notify func(waiting error)
}

// NewStart begins a start. notify is called with an error when the reason of a wait changes, and with nil when a step is done.
func NewStart(log *slog.Logger, notify func(waiting error)) *Steps {
	return &Steps{log: log, notify: notify}
}

// Do retries a step until it succeeds, fails for good (see Passing), or ctx ends. It never begins a second attempt while one
// hangs. After an error an attempt may still run, so don't use the variables that it sets.
func (s *Steps) Do(ctx context.Context, step Step, do func(context.Context) error) error {
	if s == nil {
		return do(ctx)
	}
	step.Upgrades = true
	w := &waiting{Steps: s, step: step}
	s.notify(&waitError{step: step, reason: errors.New("just begun")})
	defer s.notify(nil)
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = 200*time.Millisecond, 10*time.Second
	_, err := backoff.Retry(ctx, func() (any, error) { return nil, w.attempt(ctx, do) },
		backoff.WithBackOff(pace), backoff.WithMaxElapsedTime(0))
	if err == nil && !w.logged.IsZero() {
		s.log.Info("no longer waiting for "+step.Awaited, "at", step.Address)
	}
	return err
}

// waiting is one step in progress.
type waiting struct {
	*Steps
	step   Step
	reason string // its public form
	failed bool   // an attempt failed, so the reason is more than silence
	logged time.Time
}

const (
	silentAfter = 3 * time.Second // an attempt without an answer is logged after this time
	logEvery    = time.Minute     // a wait is logged again after this time, if its reason is the same
)

// attempt makes one attempt, and reports its failure. The error is permanent if it is not Passing. Otherwise it has the delay
// that the server asks for.
func (w *waiting) attempt(ctx context.Context, do func(context.Context) error) error {
	err := w.answer(ctx, do)
	if err == nil || ctx.Err() != nil || !Passing(err) {
		return backoff.Permanent(err)
	}
	w.failed = true
	w.report(err)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		return backoff.RetryAfter(seconds)
	}
	return err
}

// answer waits for the answer of one attempt, and reports if it takes long.
func (w *waiting) answer(ctx context.Context, do func(context.Context) error) error {
	a := w.step.begin(ctx, do)
	defer a.cancel()
	ticker := time.NewTicker(silentAfter)
	defer ticker.Stop()
	for {
		select {
		case err := <-a.ended:
			return a.judge(ctx, err)
		case <-ticker.C:
			if a.upgrades.Load() {
				w.report(errUpgrading)
			} else if !w.failed || time.Since(w.logged) >= logEvery {
				w.report(errors.New(w.step.silence()))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// report calls notify, and logs the wait when its reason changes, and each minute.
func (w *waiting) report(reason error) {
	public := fault.Public(reason)
	known := public == w.reason
	w.reason = public
	w.notify(&waitError{step: w.step, reason: reason})
	if known && time.Since(w.logged) < logEvery {
		return
	}
	w.logged = time.Now()
	w.log.Warn("waiting for "+w.step.Awaited, "at", w.step.Address, "reason", reason)
}

// WaitsOn returns the dependency that a start waits for, from the error that NewStart's notify gets. It returns "" for other
// errors.
func WaitsOn(err error) string {
	if waiting, ok := errors.AsType[*waitError](err); ok {
		return waiting.step.Dependency
	}
	return ""
}

// waitError is the reason of a wait, as /readyz shows it.
type waitError struct {
	step   Step
	reason error
}

func (e *waitError) Error() string { return "waiting for " + e.step.what() + ": " + e.reason.Error() }
