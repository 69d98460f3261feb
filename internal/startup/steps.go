// Package startup takes a process through what it needs of its servers before it can work, step by step. Each attempt at a
// step has a limit, whatever it hangs on; what is waited for is told; what may pass by itself is tried again. It knows
// nothing of what the steps do.
package startup

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Step is one thing that is needed of one server.
type Step struct {
	For   string        // what is waited for: "the API server to say which cluster it is"
	At    string        // the server's address, in words that may be shown
	Limit time.Duration // of one attempt; 0: none
	Far   func() string // how far the attempt is; nil: not known
}

// what is the step in words.
func (s Step) what() string {
	if s.At == "" {
		return s.For
	}
	return s.For + " (" + s.At + ")"
}

// silence says that there is no answer, and how far the attempt is.
func (s Step) silence() string {
	if s.Far != nil {
		if far := s.Far(); far != "" {
			return far
		}
	}
	return "no answer yet"
}

// SilentError: an attempt had no end within its limit.
type SilentError struct {
	Step  Step
	After time.Duration
	far   string
	err   error // of the attempt, if it ended at the limit
}

func (e *SilentError) Error() string {
	text := fmt.Sprintf("waited %s for %s: %s", e.After, e.Step.what(), e.far)
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

// Unwrap lets callers see that it was a deadline.
func (e *SilentError) Unwrap() error { return context.DeadlineExceeded }

// attempt is one call that runs beside the caller: client-go runs credential plugins without a context.
type attempt struct {
	step   Step
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan error
}

func (s Step) begin(ctx context.Context, do func(context.Context) error) *attempt {
	a := &attempt{step: s, ended: make(chan error, 1)}
	if s.Limit > 0 {
		a.ctx, a.cancel = context.WithTimeout(ctx, s.Limit)
	} else {
		a.ctx, a.cancel = context.WithCancel(ctx)
	}
	go func() { a.ended <- do(a.ctx) }()
	return a
}

// slack is what an attempt may take to end once its limit has passed.
const slack = 200 * time.Millisecond

// Once makes one attempt, and returns at its limit, or when ctx ends, even if the attempt does not.
func Once(ctx context.Context, step Step, do func(context.Context) error) error {
	a := step.begin(ctx, do)
	defer a.cancel()
	var late <-chan time.Time
	if step.Limit > 0 {
		late = time.After(step.Limit + slack)
	}
	select {
	case err := <-a.ended:
		return a.judge(ctx, err)
	case <-late:
		return &SilentError{Step: step, After: step.Limit, far: step.silence()}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// judge tells an attempt that ended at its limit from one that failed.
func (a *attempt) judge(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || a.ctx.Err() == nil {
		return err
	}
	return &SilentError{Step: a.step, After: a.step.Limit, far: a.step.silence(), err: err}
}

// Steps waits for the steps of one start. A nil *Steps makes one attempt at each, and leaves its limit to the caller.
type Steps struct {
	log   *slog.Logger
	tell  func(waiting error) // what is waited for now; nil when that is over
	limit time.Duration
	until atomic.Pointer[time.Time] // nil: for as long as it takes
}

// New begins a start that may take as long as limit says; 0: as long as it takes. tell is called when what is waited for
// changes, and with nil when a step is done.
func New(log *slog.Logger, limit time.Duration, tell func(waiting error)) *Steps {
	s := &Steps{log: log, tell: tell, limit: limit}
	if limit > 0 {
		until := time.Now().Add(limit)
		s.until.Store(&until)
	}
	return s
}

// Done ends the start: what is still to come has no limit.
func (s *Steps) Done() {
	if s != nil {
		s.until.Store(nil)
	}
}

// TimeoutError: the start took longer than it may.
type TimeoutError struct {
	Limit  time.Duration
	Step   Step
	Reason string
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("not started within %s (KUBECDC_START_TIMEOUT): waited for %s: %s", e.Limit, e.Step.what(), e.Reason)
}

// Do tries a step until it succeeds or fails for good (Passing), ctx ends, or the start's time is over. It never makes a second
// attempt beside one that hangs. After an error an attempt may still run: what it sets is not to be touched then.
func (s *Steps) Do(ctx context.Context, step Step, do func(context.Context) error) error {
	if s == nil {
		return do(ctx)
	}
	w := &waiting{Steps: s, step: step, retry: backoff.NewExponentialBackOff(), timeout: s.timeout()}
	w.retry.InitialInterval, w.retry.MaxInterval = 200*time.Millisecond, 10*time.Second
	s.tell(&waitError{step: step, reason: "just asked"})
	defer s.tell(nil)
	for {
		err := w.attempt(ctx, do)
		if err == nil || ctx.Err() != nil || !Passing(err) {
			w.over(err)
			return err
		}
		w.failed = true
		w.say(err.Error())
		if err := w.pause(ctx, err); err != nil {
			return err
		}
	}
}

// timeout fires when the start's time is over; nil for never.
func (s *Steps) timeout() <-chan time.Time {
	if until := s.until.Load(); until != nil {
		return time.After(time.Until(*until))
	}
	return nil
}

// waiting is one step that is waited for.
type waiting struct {
	*Steps
	step    Step
	retry   *backoff.ExponentialBackOff
	timeout <-chan time.Time
	reason  string
	failed  bool // an attempt did, so the reason is more than silence
	said    time.Time
}

const (
	silentAfter = 3 * time.Second // an attempt without an answer is told then
	sayEvery    = time.Minute     // and again as often, while the reason is the same
)

// attempt makes one attempt, and tells when it takes long.
func (w *waiting) attempt(ctx context.Context, do func(context.Context) error) error {
	a := w.step.begin(ctx, do)
	defer a.cancel()
	look := time.NewTicker(silentAfter)
	defer look.Stop()
	for {
		select {
		case err := <-a.ended:
			return a.judge(ctx, err)
		case <-look.C:
			if !w.failed || time.Since(w.said) >= sayEvery {
				w.say(w.step.silence())
			}
		case <-w.timeout:
			if !w.failed {
				w.reason = w.step.silence()
			}
			return w.late()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pause waits for the next attempt's time: for as long as the server asks, if it does.
func (w *waiting) pause(ctx context.Context, err error) error {
	delay := w.retry.NextBackOff()
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		delay = max(delay, time.Duration(seconds)*time.Second)
	}
	select {
	case <-time.After(delay):
		return nil
	case <-w.timeout:
		return w.late()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *waiting) late() error { return &TimeoutError{Limit: w.limit, Step: w.step, Reason: w.reason} }

// ownPort is this side of a connection, which is another one each time.
var ownPort = regexp.MustCompile(`\S+->`)

// say tells what is waited for, and why: in the log when the reason changes, and each minute.
func (w *waiting) say(reason string) {
	known := ownPort.ReplaceAllString(reason, "") == ownPort.ReplaceAllString(w.reason, "")
	w.reason = reason
	w.tell(&waitError{step: w.step, reason: reason})
	if known && time.Since(w.said) < sayEvery {
		return
	}
	w.said = time.Now()
	w.log.Warn("waiting for "+w.step.For, "at", w.step.At, "reason", reason)
}

// over says that a wait that was told of has ended well.
func (w *waiting) over(err error) {
	if err == nil && !w.said.IsZero() {
		w.log.Info("no longer waiting for "+w.step.For, "at", w.step.At)
	}
}

// waitError is what is waited for, for /readyz.
type waitError struct {
	step   Step
	reason string
}

func (e *waitError) Error() string { return "waiting for " + e.step.what() + ": " + e.reason }
