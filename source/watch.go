package source

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
)

// event is one line of a watch.
type event struct {
	kind   string // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR, or one that is not known yet
	object []byte // valid until the next event is read
	line   []byte
	err    error // it can't be read; line is what came
}

// watcher reads the events of one watch connection.
type watcher struct {
	body  io.ReadCloser
	lines *bufio.Reader
	long  []byte // holds a line that outgrew the reader's buffer
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
	return &watcher{body: body, lines: bufio.NewReaderSize(body, 64<<10)}, nil
}

func (w *watcher) close() { _ = w.body.Close() }

// next reads one event. io.EOF is the server's ordinary end; a line cut in its middle is io.ErrUnexpectedEOF and
// is never delivered.
func (w *watcher) next() (event, error) {
	for {
		line, err := w.readLine()
		if err != nil {
			return event{}, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return parseEvent(line), nil
		}
	}
}

// readLine returns one whole line: kube-apiserver ends each event with a newline and writes none inside
// (its JSON serializer's framer; pretty-printing is only on request).
func (w *watcher) readLine() ([]byte, error) {
	line, err := w.lines.ReadSlice('\n')
	if err == nil {
		return line, nil
	}
	w.long = append(w.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = w.lines.ReadSlice('\n')
		w.long = append(w.long, line...)
	}
	if errors.Is(err, io.EOF) && len(bytes.TrimSpace(w.long)) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return w.long, err
}

// parseEvent finds type and object; unknown members are tolerated.
func parseEvent(line []byte) event {
	e := event{line: line}
	f := fieldsOf(line)
	for {
		key, value, ok := f.next()
		if !ok {
			break
		}
		switch string(key) {
		case "type":
			e.kind, _ = text(value)
		case "object":
			e.object = value
		}
	}
	if f.err != nil || e.kind == "" {
		e.err = fmt.Errorf("read a watch event: %w", errMalformed)
	}
	return e
}

// statusOf is the error that an ERROR event carries.
func (e event) statusOf() error {
	status := metav1.Status{}
	if err := json.Unmarshal(e.object, &status); err != nil {
		return fmt.Errorf("read an ERROR event %q: %w", snippet(e.object), err)
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// bookmark is what a BOOKMARK event says.
type bookmark struct {
	version    string
	initialEnd bool // all objects of a streaming list were sent
}

func (e event) bookmark() (bookmark, error) {
	o := object{}
	metadata := member(e.object, "metadata")
	if err := o.parseMetadata(metadata); err != nil || !change.ValidVersion(o.version) {
		return bookmark{}, fmt.Errorf("read a bookmark: %w", errMalformed)
	}
	end, _ := text(member(member(metadata, "annotations"), metav1.InitialEventsAnnotationKey))
	return bookmark{version: o.version, initialEnd: end == "true"}, nil
}

// member is the value of one member of an object; nil when there is none.
func member(raw []byte, name string) []byte {
	f := fieldsOf(raw)
	for {
		key, value, ok := f.next()
		if !ok {
			return nil
		}
		if string(key) == name {
			return value
		}
	}
}
