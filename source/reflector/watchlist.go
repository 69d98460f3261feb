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
	StreamingOn   = "on"   // pages only where a streaming list can't show whether the server's history went back
	StreamingOff  = "off"
)

// streams reports whether to read the list as a streaming list (KEP-3157): a watch that begins with all objects, in any
// order, and ends the list with a bookmark. It saves the server the pages, and is as consistent as a list. Servers before
// 1.32 may ignore sendInitialEvents and send any old state without that bookmark, so auto does not use it with them.
func (l *listing) streams(ctx context.Context) bool {
	switch l.options.StreamingLists {
	case StreamingOn:
		return !l.older
	case StreamingAuto:
		if l.token == "" && l.until == "" && l.failed < 2 {
			recent, err := l.client.AtLeast(ctx, 1, 32)
			return err == nil && recent
		}
	}
	return false
}

// errNotStreamed reports that the list must be read in pages.
var errNotStreamed = errors.New("the list can't be streamed")

// streamed reads a streaming list. After an error the list begins anew; what was emitted is among the known objects.
func (l *listing) streamed(ctx context.Context) error {
	l.known.StartPass()
	l.objects, l.nameless = 0, 0
	w, err := l.client.Watch(ctx, l.stream, l.options.MetadataOnly, "", listSeconds)
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
		err = fmt.Errorf("%w: it has objects as they were before the log's position", errNotStreamed)
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

// initial handles one event of a streaming list; done is true at the bookmark that ends the list.
func (l *listing) initial(ctx context.Context, e apiclient.Event) (done bool, err error) {
	if e.Err != nil {
		return false, l.unread(ctx, &e.Object, e.Line, e.Err)
	}
	switch e.Type {
	case "ADDED", "MODIFIED", "DELETED":
		return false, l.initialObject(ctx, e)
	case "BOOKMARK":
		version, end, err := e.Bookmark()
		if err != nil || !end {
			return false, err
		}
		l.version = version
		l.resetBackoff()
		l.observer.ListProgress(l.ID(), int64(l.objects), int64(l.objects))
		return true, l.checkFresh(version)
	case "ERROR":
		return false, e.Status()
	}
	return false, nil
}

func (l *listing) initialObject(ctx context.Context, e apiclient.Event) error {
	o := e.Object
	if err := o.Check(); errors.Is(err, apiclient.ErrUnsupported) {
		return err
	} else if err != nil {
		return l.unread(ctx, &o, e.Line, err)
	}
	d := l.known.Compare(o.Key(), o.UID, o.Version)
	if e.Type == "ADDED" {
		l.objects++
	}
	switch {
	case e.Type == "DELETED" && !d.Known():
		return nil
	case l.suspect(&o, d):
		l.older = true
		return nil
	case e.Type == "DELETED":
		return l.send(ctx, l.newChange(change.Delete, &o), stays)
	}
	if l.objects%1000 == 0 {
		l.observer.ListProgress(l.ID(), int64(l.objects), int64(max(l.objects, l.known.Len())))
	}
	return l.object(ctx, &o)
}

// suspect reports whether a list that is older than the log would explain the object. Nothing of it may be emitted, since the
// version of a streaming list comes last. The list in pages, which follows, emits it if the list is not older.
func (l *listing) suspect(o *apiclient.Object, d known.Difference) bool {
	return !l.rewinds && d == known.Older || l.predates(o, d)
}
