package live

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/change"
)

func TestProgressIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := New(slog.New(slog.NewTextHandler(&out, nil)), 0)
		p.ListProgress("pods", 0, 0)
		p.ListProgress("secrets", 0, 0)
		p.ListProgress("secrets", 100, 300)
		time.Sleep(2 * logInterval)
		p.ListProgress("pods", 500, 500)
		p.StreamState("pods", change.StateWatching, nil)
		p.ListProgress("secrets", 200, 300)
		p.StreamState("secrets", change.StateWatching, nil)
		text := out.String()
		if !strings.Contains(text, "snapshot objects=600 of=800 streams_left=2") || !strings.Contains(text, `"snapshot complete" streams=2 objects=700`) ||
			strings.Count(text, "msg=snapshot ") != 1 {
			t.Errorf("%q", text)
		}
	})
}

func TestTheSnapshotIsCompleteOnce(t *testing.T) {
	var out bytes.Buffer
	e := New(slog.New(slog.NewTextHandler(&out, nil)), 1)
	for _, stream := range []string{"pods", "secrets", "nodes", "services"} {
		e.StreamAdded(0, change.StreamID(stream), nil)
	}
	for _, stream := range []string{"pods", "nodes"} {
		e.ListProgress(change.StreamID(stream), 0, 0)
		e.ListProgress(change.StreamID(stream), 2, 2)
		e.StreamState(change.StreamID(stream), change.StateWatching, nil)
	}
	e.StreamState("secrets", change.StateWaiting, errors.New("403"))
	e.StreamState("services", change.StateWatching, nil)
	if strings.Count(out.String(), `"snapshot complete" streams=2 objects=4`) != 1 || strings.Count(out.String(), "resumed streams=1") != 1 {
		t.Error(out.String())
	}
	out.Reset()
	for _, stream := range []string{"pods", "nodes", "services"} {
		e.StreamAdded(0, change.StreamID(stream), nil)
	}
	for _, stream := range []string{"pods", "nodes"} {
		e.StreamState(change.StreamID(stream), change.StateWatching, nil)
	}
	e.StreamsStopped(0)
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "resumed streams=2") {
		t.Errorf("two streams were resumed, and one ended before: %s", text)
	}
	out.Reset()
	for range 3 { // a stream that is refused begins again every few seconds
		e.ListProgress("secrets", 0, 0)
		e.StreamState("secrets", change.StateWaiting, errors.New("403"))
	}
	if out.Len() > 0 {
		t.Errorf("a refused stream has no snapshot: %s", out.String())
	}
}
