package observe

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
)

func TestProgressBar(t *testing.T) {
	var terminal bytes.Buffer
	p := NewProgress(&terminal)
	log := slog.New(slog.NewTextHandler(p.Writer(&terminal), nil))
	p.LogTo(log)
	p.Begin("pods")
	p.Begin("secrets")
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(terminal.String(), "(500/501"); { // drawing is throttled
		p.List("pods", 500, 500) // one stream's end is not the end
		if time.Now().After(deadline) {
			t.Fatalf("the bar does not move: %q", terminal.String())
		}
	}
	p.List("nodes", 1, 1) // not a first snapshot
	log.Info("in between")
	p.Done("pods")
	p.List("secrets", 100, 300)
	p.Done("secrets")
	text := terminal.String()
	if !strings.Contains(text, `"snapshot complete" objects=600`) {
		t.Errorf("%q", text)
	}
	if i := strings.Index(text, "in between"); !strings.Contains(text[:i], "\r") {
		t.Error("the bar is not removed before a line is logged")
	}
}

func TestTheSnapshotIsCompleteOnce(t *testing.T) {
	var out bytes.Buffer
	e := &Exporter{Metrics: NewMetrics(""), Health: NewHealth(), Progress: NewProgress(nil)}
	e.Progress.LogTo(slog.New(slog.NewTextHandler(&out, nil)))
	for _, stream := range []string{"pods", "secrets", "nodes", "services"} {
		e.StreamAdded(change.StreamID(stream))
	}
	for _, stream := range []string{"pods", "nodes"} {
		e.SnapshotStarted(change.StreamID(stream))
		e.ListProgress(change.StreamID(stream), 2, 2)
		e.StreamState(change.StreamID(stream), change.StateWatching, "", nil)
	}
	e.StreamState("secrets", change.StateWaiting, "first snapshot", errors.New("403"))
	e.StreamState("services", change.StateWatching, "resumed", nil)
	if strings.Count(out.String(), "snapshot complete") != 1 || !strings.Contains(out.String(), "objects=4") {
		t.Error(out.String())
	}
	out.Reset()
	e.StreamAdded("pods")
	e.StreamState("pods", change.StateWatching, "resumed", nil)
	if out.Len() > 0 {
		t.Errorf("a resumed stream had no snapshot: %s", out.String())
	}
	for range 3 { // a stream that is refused begins again every few seconds
		e.SnapshotStarted("secrets")
		e.StreamState("secrets", change.StateWaiting, "first snapshot", errors.New("403"))
	}
	if out.Len() > 0 {
		t.Errorf("a refused stream has no snapshot: %s", out.String())
	}
}
