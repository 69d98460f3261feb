package recovery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/source/apiclient"
)

// Limiter paces the requests of recoveries, for all streams of the process together. Most gaps come from the restart of an API
// server, which gives all streams a gap. A recovery begins at a low rate, which rises while answers are fast (additive increase).
// A 429, a 5xx or a cut connection halves the rate (multiplicative decrease). A slow answer may be only a pause of the server,
// and lowers the rate by a quarter. A 500 that comes fast says nothing of the load. The number of concurrent requests follows the
// rate and the latency of the server. A server that is far away may have more requests on their way.
//
// After a Retry-After no stream makes a request until that time is over.
type Limiter struct {
	start, most float64 // requests a second
	log         *slog.Logger
	bucket      *rate.Limiter
	next        chan struct{} // held while a request waits to be admitted, so that a new rate holds from the next one on
	freed       chan struct{} // an answer came

	mu        sync.Mutex
	running   int           // requests without an answer
	rise      float64       // by how much the rate grows in a second, in requests a second
	fastest   time.Duration // fastest answer of this recovery; 0: none yet
	notBefore time.Time     // no request is made before (Retry-After)
	answered  time.Time     // the last answer
	lowered   time.Time     // the last time that the rate was lowered
	logged    time.Time     // the last log line of that
}

const (
	// The limiter admits at once as many requests as come at the rate within the time of an answer. That time is twice the
	// fastest answer's, and at least nearAnswer. If answers take longer, this bounds the rate.
	nearAnswer = 20 * time.Millisecond
	// riseAfterFall is the part of the first rate by which the rate grows each second after it was lowered. Before that, it grows
	// by the first rate each second.
	riseAfterFall = 0.2
	// lowest is the part of the first rate below which the rate never falls.
	lowest = 0.1
	// The rate grows while answers take no longer than fastAnswer, or fastMultiple times the fastest one.
	fastAnswer, fastMultiple = 50 * time.Millisecond, 5
	// An answer is slow if it takes slowMultiple times longer than an answer that still lets the rate grow.
	slowMultiple = 5
	// The part of the rate that is left after an overload, and after a slow answer.
	afterOverload, afterSlow = 0.5, 0.75
	// A request that comes so long after the last answer begins another recovery.
	newRecovery = 10 * time.Second
)

// NewLimiter begins each recovery with start requests a second, and goes up to most.
func NewLimiter(start, most float64, log *slog.Logger) *Limiter {
	return &Limiter{start: start, most: most, log: log, bucket: rate.NewLimiter(rate.Limit(start), 1),
		next: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

// Do makes a request when the limiter admits it, and again after a 429, until ctx ends. singleRead says that the request reads
// one object: only the times of these are compared, since a list takes longer the larger it is. A nil limiter admits all.
func (l *Limiter) Do(ctx context.Context, singleRead bool, request func() error) error {
	if l == nil {
		return request()
	}
	for {
		if err := l.admit(ctx); err != nil {
			return err
		}
		sent := time.Now()
		err := request()
		l.adjust(sent, time.Now(), singleRead, err)
		if !apierrors.IsTooManyRequests(err) {
			return err
		}
	}
}

func (l *Limiter) admit(ctx context.Context) error {
	select {
	case l.next <- struct{}{}:
		defer func() { <-l.next }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := l.bucket.Wait(ctx); err != nil {
		return err
	}
	for {
		wait, started := l.tryStart(time.Now())
		if started {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-l.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryStart starts a request, or returns how long to wait if no answer comes earlier.
func (l *Limiter) tryStart(now time.Time) (wait time.Duration, started bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == 0 && now.Sub(l.answered) > newRecovery && now.Sub(l.notBefore) > newRecovery {
		l.rise, l.fastest, l.answered = l.start, 0, now
		l.bucket.SetLimit(rate.Limit(l.start))
	}
	if wait = l.notBefore.Sub(now); wait > 0 {
		return wait, false
	}
	if atOnce := float64(l.bucket.Limit()) * max(nearAnswer, 2*l.fastest).Seconds(); l.running >= max(1, int(atOnce)) {
		return time.Minute, false
	}
	l.running++
	return 0, true
}

func (l *Limiter) adjust(sent, now time.Time, singleRead bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	elapsed := min(now.Sub(l.answered), time.Second)
	l.answered = now
	select {
	case l.freed <- struct{}{}:
	default:
	}
	took, after := now.Sub(sent), apiclient.RetryAfter(err)
	if apierrors.IsTooManyRequests(err) {
		after = max(after, time.Second)
	}
	if until := now.Add(after); after > 0 && until.After(l.notBefore) {
		l.notBefore = until
	}
	if singleRead = singleRead && err == nil; singleRead && (l.fastest == 0 || took < l.fastest) {
		l.fastest = took
	}
	fast := max(fastAnswer, fastMultiple*l.fastest)
	switch current := float64(l.bucket.Limit()); {
	case apiclient.IsOverload(err) && !(apiclient.IsInternal(err) && took <= fast):
		l.lower(sent, now, current*afterOverload, err.Error())
	case singleRead && took > slowMultiple*fast:
		l.lower(sent, now, current*afterSlow, "an answer took "+took.Round(time.Millisecond).String())
	case singleRead && took <= fast:
		l.bucket.SetLimit(rate.Limit(min(l.most, current+l.rise*elapsed.Seconds())))
	}
}

// lower lowers the rate: once for all requests that were sent before it was last lowered.
func (l *Limiter) lower(sent, now time.Time, to float64, reason string) {
	if sent.Before(l.lowered) {
		return
	}
	to = max(1, lowest*l.start, to)
	l.bucket.SetLimit(rate.Limit(to))
	l.rise, l.lowered = riseAfterFall*l.start, now
	if now.Sub(l.logged) > time.Minute {
		l.logged = now
		l.log.Info("the API server is overloaded or slow: recovery makes fewer requests",
			"requests a second", int(to), "reason", reason)
	}
}
