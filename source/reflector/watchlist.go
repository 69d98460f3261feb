package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// Settings of Options.StreamingLists.
const (
	StreamingAuto = "auto" // where the server can, as its version says; pages where that fails
	StreamingOn   = "on"
	StreamingOff  = "off"
)

// streams decides whether a list is read as a stream (KEP-3157): a watch that begins with all objects, in any order,
// and says with a bookmark where the list ends. It spares the server the pages; the answer is as consistent as a
// list's. Servers older than 1.32 may not know sendInitialEvents, and would send any old state without an end, so
// in auto they are not asked.
func (l *listing) streams(ctx context.Context) bool {
	s := l.Reflector
	switch s.options.StreamingLists {
	case StreamingOn:
		return true
	case StreamingAuto:
		return l.token == "" && l.until == "" && l.failed < 2 && s.client.AtLeast(ctx, 1, 32)
	}
	return false
}

// errNotStreamed: the list must be read in pages.
var errNotStreamed = errors.New("the list can't be streamed")

// streamed reads the list as a stream. After an error it begins anew; what was emitted is known.
func (l *listing) streamed(ctx context.Context) error {
	s := l.Reflector
	s.known.StartPass()
	l.objects = 0
	w, err := s.client.WatchList(ctx, s.stream, s.options.MetadataOnly, listSeconds)
	if err == nil {
		defer w.Close()
		for done := false; err == nil && !done; {
			var e apiclient.Event
			if e, err = w.Next(); err == nil {
				done, err = l.initial(ctx, e)
			}
		}
	}
	switch {
	case err == nil && l.older && !l.rewinds:
		err = fmt.Errorf("%w: it has objects that are older than the log has them", errNotStreamed)
	case err != nil && (apiclient.IsInvalid(err) || apiclient.IsGone(err)):
		err = fmt.Errorf("%w: %s", errNotStreamed, apiclient.Reason(err))
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("the server ended a streaming list before it was complete: %w", io.ErrUnexpectedEOF)
	}
	if err != nil {
		l.failed++
	}
	return err
}

// listSeconds bounds how long a streaming list may take.
const listSeconds = 3600

// initial takes one Event of a streaming list; done is true at the bookmark that ends it.
func (l *listing) initial(ctx context.Context, e apiclient.Event) (done bool, err error) {
	s := l.Reflector
	if e.Err != nil {
		return false, s.sendMalformed(ctx, e.Line, e.Err)
	}
	switch e.Type {
	case "ADDED", "MODIFIED", "DELETED":
		return false, l.initialObject(ctx, e)
	case "BOOKMARK":
		b, err := e.Bookmark()
		if err != nil || !b.InitialEnd {
			return false, err
		}
		l.version = b.Version
		s.alive()
		s.observer.ListProgress(s.ID(), int64(l.objects), int64(l.objects))
		return true, l.fresh(b.Version)
	case "ERROR":
		return false, e.Status()
	}
	return false, nil
}

func (l *listing) initialObject(ctx context.Context, e apiclient.Event) error {
	s := l.Reflector
	o := e.Object
	if err := o.Check(); errors.Is(err, apiclient.ErrUnsupported) {
		return err
	} else if err != nil {
		return s.sendMalformed(ctx, e.Line, err)
	}
	d := s.known.Compare(o.Key(), o.UID, o.Version)
	if e.Type == "DELETED" {
		if d.Known() {
			return s.send(ctx, s.change(change.Delete, &o), stays)
		}
		return nil
	}
	if e.Type == "ADDED" {
		l.objects++
	}
	if d == known.Older && !l.rewinds {
		l.older = true // another history, or a server that gave a stale answer: the pages will tell
		return nil
	}
	if d != known.Same {
		o.Raw = append([]byte(nil), o.Raw...)
	}
	if l.objects%1000 == 0 {
		s.observer.ListProgress(s.ID(), int64(l.objects), int64(max(l.objects, s.known.Len())))
	}
	return l.object(ctx, &o)
}
