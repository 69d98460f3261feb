package reflector

import (
	"context"
	"sync"
	"time"
)

// look compares a collection with the log while a watch of it is open and silent, shortly before the watch's time is over.
// Where the list, at L, has what the log has, and the watch then ends in silence, nothing happened up to L: the position
// moves to L. It is a few seconds old when the next watch begins there, so the server may compact as often as it likes. A
// list between two watches (silence.go) would be confirmed only by a third one, which the server has to let begin at the
// old position, a watch or two old by then.
//
// It is made for Events, which never have bookmarks, and for resources whose position was compacted in silence before.
//
// The stream is not touched by two at once: a look that is going on is given up before an event is handled.
type look struct {
	watch  *watching
	at     time.Time // when it begins
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex // held by who uses the stream
	last time.Time  // when the last event was handled
}

// lookLead is how long before the watch's end the list begins: the list takes of it, and the watch must have told by then
// what happened before the list. A watch that told of something so shortly before needs none: its position is new.
const lookLead = 5 * time.Second

// look plans a look into a watch that lasts for so long; nil where none is needed.
func (s *watching) look(ctx context.Context, lasts time.Duration) *look {
	x := &s.silence
	if !leased(s.stream.Resource) && !s.compacted || s.bookmarks || s.catchUp != nil || x.differs || x.resting() {
		return nil
	}
	lead := min(lookLead, lasts/2)
	l := &look{watch: s, at: time.Now().Add(lasts - lead), done: make(chan struct{})}
	ctx, l.cancel = context.WithCancel(ctx)
	go func() {
		defer close(l.done)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(l.at)):
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if ctx.Err() == nil && !s.bookmarks && time.Since(l.last) >= lead {
			// It must be over while the watch is surely open: what came and went between its end and the list would be lost.
			ctx, cancel := context.WithDeadline(ctx, l.at.Add(lead/2))
			defer cancel()
			l.compare(ctx)
		}
	}()
	return l
}

// aside has an event handled while nobody else uses the stream. Once the moment has come an event ends the look.
func (l *look) aside(handle func() error) error {
	if l == nil {
		return handle()
	}
	now := time.Now()
	if !now.Before(l.at) {
		l.cancel()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = now
	return handle()
}

// stop ends a comparison that is not done yet.
func (l *look) stop() {
	if l != nil {
		l.cancel()
		<-l.done
	}
}

func (l *look) compare(ctx context.Context) {
	s := l.watch
	before := s.silence.quietTo
	if err := s.compare(ctx); err != nil {
		s.log.Debug("a quiet collection can't be compared with the log now; it is tried again after the watch", "error", err)
	}
	s.silence.compared = s.silence.differs || s.silence.quietTo != before
}
