package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"kubecdc/change"
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
func (l *lister) streams(ctx context.Context) bool {
	s := l.stream
	switch s.options.StreamingLists {
	case StreamingOn:
		return true
	case StreamingAuto:
		return l.token == "" && l.until == "" && l.failed < 2 && s.client.atLeast(ctx, 1, 32)
	}
	return false
}

// atLeast asks for the server's version.
func (c *Client) atLeast(ctx context.Context, major, minor int) bool {
	raw, err := c.read(ctx, "/version")
	if err != nil {
		return false
	}
	var v struct{ Major, Minor string }
	if json.Unmarshal(raw, &v) != nil {
		return false
	}
	gotMajor, err1 := strconv.Atoi(v.Major)
	gotMinor, err2 := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	return err1 == nil && err2 == nil && (gotMajor > major || gotMajor == major && gotMinor >= minor)
}

// errNotStreamed: the list must be read in pages.
var errNotStreamed = errors.New("the list can't be streamed")

// streamed reads the list as a stream. After an error it begins anew; what was sent is in the index.
func (l *lister) streamed(ctx context.Context) error {
	s := l.stream
	s.known.StartPass()
	l.objects = 0
	w, err := s.client.watchInitial(ctx, s.stream, s.options.MetadataOnly, listSeconds)
	if err == nil {
		defer w.close()
		for done := false; err == nil && !done; {
			var e event
			if e, err = w.next(); err == nil {
				done, err = l.initial(ctx, e)
			}
		}
	}
	switch {
	case err == nil && l.older && !s.rewound:
		err = fmt.Errorf("%w: it has objects that are older than the log has them", errNotStreamed)
	case err != nil && (isInvalid(err) || isGone(err)):
		err = fmt.Errorf("%w: %s", errNotStreamed, reasonText(err))
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

// initial takes one event of a streaming list; done is true at the bookmark that ends it.
func (l *lister) initial(ctx context.Context, e event) (done bool, err error) {
	s := l.stream
	if e.err != nil {
		return false, s.sendMalformed(ctx, e.line, e.err)
	}
	switch e.kind {
	case "ADDED", "MODIFIED", "DELETED":
		return false, l.initialObject(ctx, e)
	case "BOOKMARK":
		b, err := e.bookmark()
		if err != nil || !b.initialEnd {
			return false, err
		}
		l.version = b.version
		s.alive()
		s.observer.ListProgress(s.ID(), int64(l.objects), int64(l.objects))
		return true, l.fresh(b.version)
	case "ERROR":
		return false, e.statusOf()
	}
	return false, nil
}

func (l *lister) initialObject(ctx context.Context, e event) error {
	s := l.stream
	o := e.object
	if err := o.check(true); errors.Is(err, errUnsupported) {
		return err
	} else if err != nil {
		return s.sendMalformed(ctx, e.line, err)
	}
	d := s.known.Compare(o.key(), o.uid, o.version)
	if e.kind == "DELETED" {
		if d.Known() {
			return s.send(ctx, s.change(change.Delete, &o), "")
		}
		return nil
	}
	if e.kind == "ADDED" {
		l.objects++
	}
	if d == known.Older && !s.rewound {
		l.older = true // another history, or a server that gave a stale answer: the pages will tell
		return nil
	}
	if d != known.Same {
		o.raw = append([]byte(nil), o.raw...)
	}
	if l.objects%1000 == 0 {
		s.observer.ListProgress(s.ID(), int64(l.objects), int64(max(l.objects, s.known.Len())))
	}
	return l.object(ctx, &o)
}
