package source

import (
	"context"
	"time"
)

// look compares a collection with the log while a watch of it is open and silent, shortly before the watch's time is over.
// Where the list, at L, has what the log has, and the watch then ends in silence, nothing happened up to L: the position
// moves to L. It is a few seconds old when the next watch begins there, so the server may compact as often as it likes. A
// list between two watches (silence.go) would be confirmed only by a third one, which the server has to let begin at the
// old position, a watch or two old by then.
//
// It is for Events, of which it is known that there are no bookmarks, and for what was compacted in silence before.
//
// The stream is not touched by two at once: the look is given up before an event is handled.
type look struct {
	stream *Stream
	at     time.Time
	cancel context.CancelFunc
	done   chan struct{} // nil: it is not planned
}

// lookLead is how long before the watch's end the list begins: the list takes of it, and the watch must have told by then
// what happened before the list.
const lookLead = 5 * time.Second

// looks plans a look in a watch that lasts for so long; nil where none is needed.
func (s *Stream) looks(lasts time.Duration) *look {
	x := &s.silence
	if !leased(s.stream.Resource) && !s.compacted || s.bookmarks || s.listing != nil || x.differs || x.resting() {
		return nil
	}
	return &look{stream: s, at: time.Now().Add(lasts - min(lookLead, lasts/2))}
}

// plan starts the wait for the moment.
func (l *look) plan(ctx context.Context) {
	if l == nil || l.done != nil {
		return
	}
	ctx, l.cancel = context.WithCancel(ctx)
	done := make(chan struct{})
	l.done = done
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(l.at)):
		}
		l.compare(ctx)
	}()
}

func (l *look) compare(ctx context.Context) {
	s := l.stream
	before := s.silence.quietTo
	if err := s.compare(ctx); err != nil {
		s.log.Debug("a quiet collection can't be compared with the log now; it is tried again after the watch", "error", err)
	}
	s.silence.compared = s.silence.differs || s.silence.quietTo != before
}

// stop gives up what is not done yet.
func (l *look) stop() {
	if l == nil || l.done == nil {
		return
	}
	l.cancel()
	<-l.done
	l.done = nil
}
