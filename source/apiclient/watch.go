package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

type Event struct {
	Type   string // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR, or one that is not known yet
	Object Object
	Line   []byte
	Err    error // why the event can't be read (Line has it as it came), or a *NotEventError
	// Since is when all events before this one were known to be read, so this one happened later (arrivals.go). It is zero if
	// that time is not known.
	Since time.Time
}

// NotEventError reports a line in the answer to a watch that is no event: something else than an API server has answered.
type NotEventError struct{ text string }

func (e *NotEventError) Error() string { return e.text }

type Watch struct {
	withhold   bool
	body       io.ReadCloser
	lines      *lines
	arrivals   *arrivals
	connection *Connection
}

// Watch opens a watch that begins after the version. Without a version it opens a streaming list, which begins with all objects.
// A server sends a bookmark about once a minute, so a connection that is idle for longer than the client's timeout is half open.
func (c *Client) Watch(ctx context.Context, s *change.Stream, metadataOnly bool, version change.ResourceVersion,
	timeoutSeconds int) (*Watch, error) {
	accept := acceptJSON
	if metadataOnly {
		accept = acceptWatchMeta
	}
	ctx, used := withConnection(ctx)
	body, from, err := c.get(ctx, CollectionPath(s, ""), watchParams(s, version, timeoutSeconds), accept)
	if err != nil {
		return nil, err
	}
	used.opened = time.Now()
	a := newArrivals(body, from.multiplexed)
	return &Watch{withhold: c.withhold, body: body, lines: newLines(a), arrivals: a,
		connection: used.ifShared(from.multiplexed)}, nil
}

// Close ends the watch, also while another goroutine waits in Next. A nil watch has nothing to close.
func (w *Watch) Close() {
	if w != nil {
		_ = w.body.Close()
	}
}

// Compressed reports whether the watch comes in gzip, as a streaming list may.
func (w *Watch) Compressed() bool {
	idle, isIdle := w.body.(*idleBody)
	if isIdle {
		_, isIdle = idle.body.(*gzipBody)
	}
	return isIdle
}

// Connection returns the watch's connection, or nil if nothing else can be asked over it.
func (w *Watch) Connection() *Connection { return w.connection }

// GoesOn sets the last time at which all events were known to be read. That was on an earlier connection, or before the initial
// events of this one. Events during the initial events have waited behind them.
func (w *Watch) GoesOn(current time.Time) { w.arrivals.restart(current) }

// Current returns when all that had happened was last known to be read, or zero if that is not known.
func (w *Watch) Current() time.Time { return w.arrivals.empty }

// Next reads one event, with a hold on the slab of its bytes. io.EOF is the ordinary end of a watch. An event that is cut is
// never returned: the error is io.ErrUnexpectedEOF. kube-apiserver ends each event with a newline and writes none inside it (its
// JSON serializer's framer, which pretty-prints only on request).
func (w *Watch) Next() (Event, error) {
	w.arrivals.line(w.lines.start < len(w.lines.slab.Bytes))
	for {
		line, err := w.lines.next()
		if err != nil {
			return Event{}, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if w.lines.long > 0 {
				e := largeEvent(line, w.lines.long)
				e.Since = w.arrivals.first
				return e, nil
			}
			e := parseEvent(line)
			if errors.Is(e.Err, errNotEvent) {
				e.Err = w.notEvent(line)
			}
			e.Since = w.arrivals.first
			e.Object.Slab = w.lines.slab.Hold()
			if e.Type == "BOOKMARK" { // about once a minute
				w.lines.shrink()
			}
			return e, nil
		}
	}
}

// eventPrefix is how many bytes are retained of the beginning of an event that is too large.
const eventPrefix = 64 << 10

// largeEvent makes an event of the beginning of a line. A deletion needs no more than the object's identity.
func largeEvent(begin []byte, size int64) Event {
	e := parseEvent(begin)
	if e.Object.Raw = nil; e.Type == "DELETED" && e.Object.Check() == nil {
		e.Err = nil
	} else {
		e.Err = &TooLargeError{e.Object.Key(), e.Object.Version, size}
	}
	e.Line = bytes.Clone(begin[:eventPrefix])
	return e
}

var errNotEvent = errors.New("it is no event")

func (w *Watch) notEvent(line []byte) *NotEventError {
	begin := "it is not shown since objects of this stream are redacted"
	if !w.withhold {
		begin = fmt.Sprintf("it begins with %q", snippet(line))
	}
	return &NotEventError{fmt.Sprintf("a gateway or proxy answers, and no API server: a line of %d bytes is no event of a "+
		"watch; %s", len(line), begin)}
}

// parseEvent reads type and object in one pass and ignores unknown members. Err is errNotEvent if one of the two is missing.
func parseEvent(line []byte) Event {
	e, hasObject := Event{Line: line}, false
	s := rawjson.New(line)
	for name, more := s.First(); more; name, more = s.Next() {
		switch {
		case string(name) == "type":
			e.Type = eventType(s.Skip())
		case string(name) == "object":
			if hasObject = true; s.AtObject() {
				e.Object.scan(&s)
			} else {
				s.Skip()
			}
		default:
			s.Skip()
		}
	}
	switch {
	case e.Type == "" || !hasObject:
		e.Err = errNotEvent
	case !s.AtEnd():
		e.Err = fmt.Errorf("read a watch event: %w", rawjson.ErrMalformed)
	}
	return e
}

// eventType returns an event's type. It allocates nothing for the usual ones.
func eventType(raw []byte) string {
	switch string(raw) {
	case `"MODIFIED"`:
		return "MODIFIED"
	case `"ADDED"`:
		return "ADDED"
	case `"DELETED"`:
		return "DELETED"
	case `"BOOKMARK"`:
		return "BOOKMARK"
	}
	kind, _ := rawjson.Text(raw)
	return kind
}

func (e Event) Status() error {
	status := metav1.Status{}
	if json.Unmarshal(e.Object.Raw, &status) != nil || status.Kind != "" && status.Kind != "Status" {
		// Nothing is quoted: it may be an object.
		return fmt.Errorf("read an ERROR event of %d bytes: %w", len(e.Object.Raw), rawjson.ErrMalformed)
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// Bookmark returns the version of a BOOKMARK event. initialEnd says that the server has sent all objects of a streaming list.
func (e Event) Bookmark() (version change.ResourceVersion, initialEnd bool, err error) {
	if !e.Object.Version.Valid() {
		return "", false, fmt.Errorf("read a bookmark: %w", rawjson.ErrMalformed)
	}
	annotations := rawjson.Member(rawjson.Member(e.Object.Raw, "metadata"), "annotations")
	end, _ := rawjson.Text(rawjson.Member(annotations, metav1.InitialEventsAnnotationKey))
	return e.Object.Version, end == "true", nil
}
