package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// event is one line of a watch.
type event struct {
	kind   string // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR, or one that is not known yet
	object object
	line   []byte
	err    error // it can't be read; line is what came
}

// watcher reads the events of one watch connection.
type watcher struct {
	body  io.ReadCloser
	lines *lines
}

// watch opens a watch after the version. A server sends a bookmark about once a minute, so one that says nothing for
// the client's time quiet is found out as half open.
func (c *Client) watch(ctx context.Context, s *change.Stream, metadataOnly bool, version string, timeoutSeconds int) (*watcher, error) {
	return c.openWatch(ctx, s, metadataOnly, watchParams(s, version, timeoutSeconds))
}

// watchInitial opens a watch that begins with all objects.
func (c *Client) watchInitial(ctx context.Context, s *change.Stream, metadataOnly bool, timeoutSeconds int) (*watcher, error) {
	return c.openWatch(ctx, s, metadataOnly, initialParams(s, timeoutSeconds))
}

func (c *Client) openWatch(ctx context.Context, s *change.Stream, metadataOnly bool, q url.Values) (*watcher, error) {
	accept := acceptJSON
	if metadataOnly {
		accept = acceptWatchMeta
	}
	body, err := c.get(ctx, collectionPath(s.Resource, s.Namespace), q, accept)
	if err != nil {
		return nil, err
	}
	return &watcher{body: body, lines: newLines(body)}, nil
}

func (w *watcher) close() { _ = w.body.Close() }

// next reads one event. Its bytes are the caller's to keep. io.EOF is the server's ordinary end; a line cut in its
// middle is io.ErrUnexpectedEOF and is never delivered. kube-apiserver ends each event with a newline and writes none
// inside (its JSON serializer's framer; pretty-printing is only on request).
func (w *watcher) next() (event, error) {
	for {
		line, err := w.lines.next()
		if err != nil {
			return event{}, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			e := parseEvent(line)
			if e.kind == "BOOKMARK" { // about once a minute
				w.lines.rest()
			}
			return e, nil
		}
	}
}

// parseEvent reads type and object in one pass; unknown members are tolerated.
func parseEvent(line []byte) event {
	e := event{line: line}
	s := rawjson.New(line)
	for name, more := s.First(); more; name, more = s.Next() {
		switch {
		case string(name) == "type":
			e.kind = kindOf(s.Skip())
		case string(name) == "object" && s.AtObject():
			e.object.scan(&s)
		default:
			s.Skip()
		}
	}
	if !s.AtEnd() || e.kind == "" {
		e.err = fmt.Errorf("read a watch event: %w", rawjson.ErrMalformed)
	}
	return e
}

// kindOf is an event's type; the usual ones need no memory.
func kindOf(raw []byte) string {
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

// statusOf is the error that an ERROR event carries.
func (e event) statusOf() error {
	status := metav1.Status{}
	if err := json.Unmarshal(e.object.raw, &status); err != nil {
		return fmt.Errorf("read an ERROR event of %d bytes: %w", len(e.object.raw), rawjson.ErrMalformed) // not quoted: it may be an object
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// bookmark is what a BOOKMARK event says.
type bookmark struct {
	version    string
	initialEnd bool // all objects of a streaming list were sent
}

func (e event) bookmark() (bookmark, error) {
	if !change.ValidVersion(e.object.version) {
		return bookmark{}, fmt.Errorf("read a bookmark: %w", rawjson.ErrMalformed)
	}
	end, _ := rawjson.Text(rawjson.Member(rawjson.Member(rawjson.Member(e.object.raw, "metadata"), "annotations"), metav1.InitialEventsAnnotationKey))
	return bookmark{version: e.object.version, initialEnd: end == "true"}, nil
}
