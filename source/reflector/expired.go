package reflector

import (
	"context"
	"time"

	"kubecdc/change"
	"kubecdc/internal/wait"
)

// expired answers a 410. It first opens a fresh connection, which may reach another API server that still has the position. Then
// it recovers or lists. It also answers any other failure that stops the watch.
type expired struct {
	*watching
	why RelistReason
}

func (e *expired) name() change.StreamState { return change.StateExpired }

func (e *expired) step(ctx context.Context) (state, error) {
	tries := e.options.FreshTries
	e.compacted = e.compacted || e.empty.watches > 0
	switch e.why {
	case RelistEmptyWatch:
		tries = min(tries, 1) // each try takes a whole watch
	case RelistDeletion:
		tries = 0 // it would come again
	}
	if e.freshTries < tries && e.renewClient() {
		e.freshTries++
		return e.enter(e.watching, "the same position on a fresh connection: "+e.reason), nil
	}
	e.backOffRelist(ctx)
	e.log.Warn("relist", "reason", e.reason, "position", e.position)
	e.observer.Relisted(e.ID(), e.why)
	if l := e.catchUp; l != nil {
		l.restart()
		return e.enter(l, "the list begins again: "+e.reason), nil
	}
	gap := e.gapFrom(e.position)
	if e.options.Recovery != nil {
		return e.enter(&recovering{Reflector: e.Reflector, gap: gap}, e.reason), nil
	}
	return e.enter(e.list(gap), "relist: "+e.reason), nil
}

// backOffRelist waits, longer each time, if the watch after a relist gets 410 at once again. No list helps then, and the API
// server must not be asked as fast as it answers.
func (r *Reflector) backOffRelist(ctx context.Context) {
	if r.relists++; r.relists == 1 {
		return
	}
	delay := min(200*time.Millisecond<<min(r.relists-2, 20), r.options.MaxBackoff)
	r.log.Warn("the watch expired again at once", "times", r.relists, "relist in", delay)
	_ = wait.For(ctx, delay)
}

// renewClient makes the next requests on new connections, until a watch there has run until its timeout.
func (r *Reflector) renewClient() bool {
	client, err := r.client.Fresh()
	if err != nil {
		r.log.Warn("no fresh connection can be made", "error", err)
		return false
	}
	r.client = client
	return true
}
