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

// Limiter paces the requests of recoveries, over all streams of the process: a gap is most often the work of an API
// server that has just been restarted, and all streams have it at once. A recovery begins at a low rate, which rises while
// answers are fast (additive increase). Where the server says 429 or 5xx, or breaks off, it is halved, and it loses a quarter
// at a slow answer, which may be a mere pause of the server (multiplicative decrease). How many requests run at once rises and
// falls with it.
//
// Where the server asks to be left alone for a while (Retry-After), all streams do so.
type Limiter struct {
	start, most float64 // requests a second
	log         *slog.Logger
	bucket      *rate.Limiter
	next        chan struct{} // held by whoever asks next: one at a time, so that a new rate holds from the next request on
	freed       chan struct{} // an answer came

	mu       sync.Mutex
	running  int           // requests that wait for their answer
	rise     float64       // by how much the rate grows in a second, in requests a second
	fastest  time.Duration // answer of this recovery; 0: none yet
	until    time.Time     // nothing is asked before
	answered time.Time     // the last time
	fell     time.Time     // the last time
	told     time.Time     // the log, that the rate fell
}

const (
	// perSeat requests a second are made one at a time, twice as many two at a time, and so on: where answers take more than
	// 20 ms it is this that bounds the rate.
	perSeat = 50
	// carefully is the part of the first rate by which the rate grows each second once it has fallen. Before, it grows by all.
	carefully = 0.2
	// lowest is the part of the first rate below which the rate never falls. One request at a time hurts no server.
	lowest = 0.1
	// The rate grows while answers take no more than this, and five times the fastest.
	fastAnswer, fastMultiple = 50 * time.Millisecond, 5
	// An answer that takes as many times longer is slow.
	slowMultiple = 5
	// What is left of the rate after a refusal, and after a slow answer.
	afterRefusal, afterSlow = 0.5, 0.75
	// afterwards the next request belongs to another recovery.
	afterwards = 10 * time.Second
)

// NewLimiter begins each recovery with start requests a second, and goes up to most.
func NewLimiter(start, most float64, log *slog.Logger) *Limiter {
	return &Limiter{start: start, most: most, log: log, bucket: rate.NewLimiter(rate.Limit(start), 1),
		next: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

// Do makes a request when its turn has come, and again where the answer is 429, for as long as ctx lasts. Reads of one
// object are alike, so how long they take tells how the server is; lists (alike: false) take as long as they are large.
// Without a limiter nobody waits.
func (l *Limiter) Do(ctx context.Context, alike bool, request func() error) error {
	if l == nil {
		return request()
	}
	for {
		if err := l.admit(ctx); err != nil {
			return err
		}
		sent := time.Now()
		err := request()
		l.learn(sent, time.Now(), alike, err)
		if !apierrors.IsTooManyRequests(err) {
			return err
		}
	}
}

// admit waits until the next request may be made.
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
		wait, seated := l.seat(time.Now())
		if seated {
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

// seat takes a seat, or says after how long to ask again if no answer frees one.
func (l *Limiter) seat(now time.Time) (wait time.Duration, taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == 0 && now.Sub(l.answered) > afterwards && now.Sub(l.until) > afterwards {
		l.rise, l.fastest, l.answered = l.start, 0, now
		l.bucket.SetLimit(rate.Limit(l.start))
	}
	if wait = l.until.Sub(now); wait > 0 {
		return wait, false
	}
	if l.running >= max(1, int(l.bucket.Limit()/perSeat)) {
		return time.Minute, false
	}
	l.running++
	return 0, true
}

// learn sets the rate by how a request went.
func (l *Limiter) learn(sent, now time.Time, alike bool, err error) {
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
	if until := now.Add(after); after > 0 && until.After(l.until) {
		l.until = until
	}
	if alike = alike && err == nil; alike && (l.fastest == 0 || took < l.fastest) {
		l.fastest = took
	}
	fast := max(fastAnswer, fastMultiple*l.fastest)
	switch current := float64(l.bucket.Limit()); {
	case apiclient.IsOverload(err):
		l.fall(sent, now, current*afterRefusal, err.Error())
	case alike && took > slowMultiple*fast:
		l.fall(sent, now, current*afterSlow, "an answer took "+took.Round(time.Millisecond).String())
	case alike && took <= fast:
		l.bucket.SetLimit(rate.Limit(min(l.most, current+l.rise*elapsed.Seconds())))
	}
}

// fall lowers the rate; once for all that was sent before it last fell.
func (l *Limiter) fall(sent, now time.Time, to float64, reason string) {
	if sent.Before(l.fell) {
		return
	}
	to = max(1, lowest*l.start, to)
	l.bucket.SetLimit(rate.Limit(to))
	l.rise, l.fell = carefully*l.start, now
	if now.Sub(l.told) > time.Minute {
		l.told = now
		l.log.Info("the API server has little time: recovery asks less of it", "requests a second", int(to), "reason", reason)
	}
}
