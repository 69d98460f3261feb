package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"kubecdc/change"
	"kubecdc/export/live"
	"kubecdc/export/ownership"
	"kubecdc/internal/web"
	"kubecdc/source/reflector"
	"kubecdc/status"
	"kubecdc/test/hostile"
)

// observedExporter is a running exporter and its metrics.
type observedExporter struct {
	*live.Exporter
	*Metrics
}

func observing(slots int) *observedExporter {
	e := live.New(slog.New(slog.DiscardHandler), slots)
	return &observedExporter{e, NewMetrics("test", e)}
}

// observed starts an exporter and its HTTP server like the command line.
func observed(t *testing.T, slots int) (*observedExporter, *Server) {
	t.Helper()
	e := observing(slots)
	s, err := Serve(ServerOptions{Options: web.Options{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}}, e.Metrics, &Status{Exporter: e.Exporter})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return e, s
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + s.Addr() + path)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(body)
}

// readyz returns whether the process is ready, and a line for each problem.
func readyz(t *testing.T, s *Server) (ready bool, wrong string) {
	t.Helper()
	code, body := get(t, s, "/readyz")
	var r status.Report
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if r.Ready != (code == http.StatusOK) {
		t.Errorf("status %d, ready %v", code, r.Ready)
	}
	var lines []string
	for _, p := range r.Problems {
		lines = append(lines, p.Component+": "+p.Text)
	}
	return r.Ready, strings.Join(lines, "\n")
}

func TestReadyFollowsTheExporter(t *testing.T) {
	e, s := observed(t, 1)
	expect := func(ready bool, wrong string) {
		t.Helper()
		gotReady, gotWrong := readyz(t, s)
		if gotReady != ready || gotWrong != wrong {
			t.Errorf("want ready %v, wrong %q; got %v, %q", ready, wrong, gotReady, gotWrong)
		}
	}
	expect(false, "slot 0: not held yet")
	e.Problem(0, errors.New("the broker is away"))
	expect(false, "slot 0: the broker is away")
	e.Problem(0, nil)
	e.ReplicaStatus(ownership.Status{Replicas: 1, Owners: map[int]string{0: "one that died"}})
	expect(false, "slot 0: held by one that died")
	e.SlotHeld(0, 1, true)
	expect(false, "slot 0: its streams are not known yet")
	e.StreamAdded(0, "pods", nil)
	e.StreamAdded(0, "secrets", nil)
	e.StreamsKnown(0)
	e.StreamState("pods", change.StateListing, nil)
	expect(false, "stream pods: no position yet: listing\nstream secrets: no position yet: new")
	e.StreamState("pods", change.StateWatching, nil)
	e.StreamState("secrets", change.StateWaiting, errors.New("403 forbidden"))
	expect(true, "stream secrets: 403 forbidden")
	e.StreamState("pods", change.StateListing, nil)
	expect(true, "stream secrets: 403 forbidden") // a relist does not affect readiness
	e.StreamState("secrets", change.StateWatching, nil)
	expect(true, "")
	e.SlotHeld(0, 1, false)
	e.Problem(0, errors.New("dial postgres://u:s3cr@h/d: refused"))
	expect(false, "slot 0: dial postgres://***@h/d: refused")
}

// A stream whose objects differ from the API server's is listed until a proof finds them equal.
func TestAFailedProofIsListed(t *testing.T) {
	e, s := observed(t, 1)
	e.SlotHeld(0, 1, true)
	e.StreamAdded(0, "pods", nil)
	e.StreamsKnown(0)
	e.StreamState("pods", change.StateWatching, nil)
	prove := func(p change.Proof) (bool, string) {
		control := change.Control{Type: change.ControlProof, Stream: "pods", ResourceVersion: "7", Proof: &p}
		e.Exporter.Committed(live.Committed{Batch: &change.Batch{Controls: []change.Control{control}}})
		return readyz(t, s)
	}
	differs := change.Proof{Result: change.ProofDifferent, Missing: change.Differing{Objects: 3}}
	if ready, wrong := prove(differs); !ready || !strings.Contains(wrong, "at resourceVersion 7: 3 missing, 0 stale, 0 extra") {
		t.Errorf("%v, %q", ready, wrong)
	}
	if ready, wrong := prove(change.Proof{Result: change.ProofEqual}); !ready || wrong != "" {
		t.Errorf("%v, %q", ready, wrong)
	}
}

// A resource for which it is unknown whether it was removed is listed. It does not affect readiness.
func TestUnknownRemovalIsListed(t *testing.T) {
	e, s := observed(t, 1)
	e.SlotHeld(0, 1, true)
	e.StreamAdded(0, "pods", nil)
	e.StreamsKnown(0)
	e.StreamState("pods", change.StateWatching, nil)
	e.RemovalUnknown(0, "widgets.example.com", errors.New("get CRDs"))
	e.RemovalUnknown(0, "pods", errors.New("not shown"))
	if ready, wrong := readyz(t, s); !ready || wrong != "stream pods: not shown\nstream widgets.example.com: get CRDs" {
		t.Errorf("%v, %q", ready, wrong)
	}
	e.RemovalUnknown(0, "pods", nil)
	e.RemovalUnknown(0, "widgets.example.com", nil)
	e.RemovalUnknown(0, "unknown", nil)
	if ready, wrong := readyz(t, s); !ready || wrong != "" {
		t.Errorf("%v, %q", ready, wrong)
	}
	if r := status.ReportOf(e.Snapshot()); r.Streams.OK != 1 || r.Streams.All != 1 {
		t.Errorf("streams %+v", r.Streams)
	}
}

func TestOneHeldSlotOfManyIsEnough(t *testing.T) {
	e, s := observed(t, 2)
	e.SlotHeld(1, 1, true)
	e.StreamAdded(0, "pods", nil)
	e.StreamsKnown(1)
	e.StreamState("pods", change.StateWatching, nil)
	if ready, wrong := readyz(t, s); !ready || wrong != "slot 0: not held yet" {
		t.Errorf("%v, %q", ready, wrong)
	}
}

func TestAReplicaOnStandbyIsReady(t *testing.T) {
	e, s := observed(t, 1)
	owners := map[int]string{0: "another"}
	e.ReplicaStatus(ownership.Status{Replicas: 2, Owners: owners})
	if ready, wrong := readyz(t, s); ready || wrong != "slot 0: held by another" {
		t.Errorf("%v, %q", ready, wrong)
	}
	e.ReplicaStatus(ownership.Status{Replicas: 2, Owners: owners, Standby: "others hold all slots"})
	if ready, wrong := readyz(t, s); !ready || wrong != "" {
		t.Errorf("%v, %q", ready, wrong)
	}
	if _, text := get(t, s, "/metrics"); !strings.Contains(text, "kubecdc_standby 1") || !strings.Contains(text, "kubecdc_replicas 2") {
		t.Error("/metrics does not say that this replica stands by")
	}
	e.ReplicaStatus(ownership.Status{Replicas: 1, Share: 1}) // the other replica has stopped
	if ready, wrong := readyz(t, s); ready || wrong != "slot 0: not held yet" {
		t.Errorf("%v, %q", ready, wrong)
	}
}

// The progress of a recovery is shown until the stream watches again. It does not affect readiness.
func TestARecoveryIsShownWhileItRuns(t *testing.T) {
	e, s := observed(t, 1)
	e.SlotHeld(0, 1, true)
	e.StreamAdded(0, "pods", nil)
	e.StreamsKnown(0)
	e.StreamState("pods", change.StateWatching, nil)
	e.StreamState("pods", change.StateBackfilling, nil)
	e.RecoveryProgress("pods", 650, 2600, 412)
	if ready, text := readyz(t, s); !ready || text != "stream pods: recovers what its watch missed: 650 of 2600 revisions accounted for, 412 requests" {
		t.Errorf("%v, %q", ready, text)
	}
	e.StreamState("pods", change.StateWatching, nil)
	if ready, text := readyz(t, s); !ready || text != "" {
		t.Errorf("%v, %q", ready, text)
	}
}

func TestMetrics(t *testing.T) {
	e, s := observed(t, 1)
	pods := change.NewStream(change.Resource{Plural: "pods"}, "shop", "app=web", "")
	differs := &change.Proof{Result: change.ProofDifferent, Stale: change.Differing{Objects: 2}}
	e.Exporter.Committed(live.Committed{Sink: 3 * time.Millisecond, Batch: &change.Batch{
		Changes:   []change.Change{{Stream: pods, Op: change.Create, After: []byte("{}")}, {Stream: pods, Op: change.Create}},
		Positions: []change.Position{{Stream: pods.ID(), Time: time.Now().Add(-time.Hour)}},
		Controls: []change.Control{{Type: change.ControlGap, Stream: pods.ID(), Gap: &change.Gap{From: "5", Complete: true}},
			{Type: change.ControlProof, Stream: pods.ID(), Proof: differs}},
	}})
	e.Exporter.Checkpointed(time.Millisecond)
	e.StreamState(pods.ID(), change.StateListing, nil)
	e.StreamState(pods.ID(), change.StateWatching, nil)
	e.Exporter.Relisted(pods.ID(), reflector.RelistExpired)
	e.Exporter.WatchRestarted(pods.ID())
	e.SlotHeld(0, 7, true)
	_, text := get(t, s, "/metrics")
	for _, want := range []string{
		`kubecdc_changes_total{op="c",resource="pods"} 2`,
		`kubecdc_batches_total{slot="0"} 1`,
		`kubecdc_commit_seconds_count{stage="sink"} 1`,
		`kubecdc_stream_state{state="watching",stream="pods@shop?labels=app=web"} 1`,
		`kubecdc_stream_lag_seconds{stream="pods@shop?labels=app=web"} 0`,
		`kubecdc_stream_confirmed_timestamp_seconds{stream="pods@shop?labels=app=web"} 1.7`,
		`kubecdc_streams{state="watching"} 1`, `kubecdc_streams{state="listing"} 0`,
		`kubecdc_relists_total{reason="410"} 1`,
		`kubecdc_watch_restarts_total 1`,
		`kubecdc_gaps_total{cause="410",complete="true"} 1`,
		`kubecdc_gaps_total{cause="410",complete="false"} 0`,
		`kubecdc_proof_timestamp_seconds{stream="pods@shop?labels=app=web"} 1.7`,
		`kubecdc_proof_differences{stream="pods@shop?labels=app=web"} 2`,
		`kubecdc_proofs_total{result="different"} 1`,
		`kubecdc_slot_epoch{slot="0"} 7`,
		`kubecdc_build_info{version="test"} 1`,
		"go_goroutines", "process_resident_memory_bytes",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(text, `state="listing",stream`) {
		t.Error("/metrics shows a former state")
	}
	e.StreamsStopped(0)
	e.SlotStreams(0, nil)
	if _, text := get(t, s, "/metrics"); strings.Contains(text, "stream_lag_seconds{") {
		t.Error("/metrics shows a stream of a slot that another replica has")
	}
}

func TestBufferAndDeadLetters(t *testing.T) {
	e, s := observed(t, 4)
	e.Buffering(3, func() live.Fill { return live.Fill{Changes: 7, Bytes: 800, Pending: 5} })
	e.Exporter.Committed(live.Committed{Batch: &change.Batch{Malformed: []change.Malformed{{Stream: "pods@shop"}}}})
	e.DeadLetter("secrets")
	_, text := get(t, s, "/metrics")
	for _, want := range []string{`kubecdc_buffer_changes{slot="3"} 7`, `kubecdc_buffer_bytes{slot="3"} 800`,
		`kubecdc_checkpoint_pending_objects{slot="3"} 5`,
		`kubecdc_dead_letters_total{resource="pods"} 1`, `kubecdc_dead_letters_total{resource="secrets"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	e.SlotHeld(3, 1, false)
	if _, text := get(t, s, "/metrics"); !strings.Contains(text, `kubecdc_buffer_changes{slot="3"} 0`) {
		t.Error("/metrics shows no empty buffer of a slot without a session")
	}
}

func TestARetryingSinkIsNotReady(t *testing.T) {
	e, s := observed(t, 1)
	e.SlotHeld(0, 1, true)
	e.StreamsKnown(0)
	e.SinkStuck(errors.New("not enough replicas"))
	if ready, wrong := readyz(t, s); ready || wrong != "sink: not enough replicas" {
		t.Errorf("%v, %q", ready, wrong)
	}
	e.SinkStuck(nil)
	if ready, wrong := readyz(t, s); !ready || wrong != "" {
		t.Errorf("%v, %q", ready, wrong)
	}
	if _, text := get(t, s, "/metrics"); !strings.Contains(text, `kubecdc_errors_total{stage="sink"} 1`) {
		t.Error("/metrics does not count it")
	}
}

func TestAPortInUseIsAnErrorOfItsOwn(t *testing.T) {
	_, s := observed(t, 0)
	_, err := Serve(ServerOptions{Options: web.Options{Listen: s.Addr(), Log: slog.New(slog.DiscardHandler)}}, observing(0).Metrics, &Status{Exporter: observing(0).Exporter})
	if _, ok := errors.AsType[*net.OpError](err); !ok || !errors.Is(err, syscall.EADDRINUSE) {
		t.Error(err)
	}
	if s, err := Serve(ServerOptions{Options: web.Options{Listen: "off"}}, observing(0).Metrics, &Status{Exporter: observing(0).Exporter}); err != nil || s.Close() != nil {
		t.Error("off", err)
	}
}

// A log line is one line, whatever it quotes. Only the logger's own colours control the terminal.
func TestHostileTextsAreOneLogLine(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	colours := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, c := range append(hostile.Names(), hostile.Contents()...) {
		for _, format := range []string{"text", "json"} {
			for _, terminal := range []bool{true, false} {
				var out bytes.Buffer
				NewLogger(&out, "info", format, terminal).With("with", c.Text).Warn("read "+c.Text, "key", c.Text, "error", errors.New("a "+c.Text),
					"stream", change.StreamID(c.Text), "several", []string{c.Text, `literal \x1b[2J`})
				line := strings.TrimSuffix(colours.ReplaceAllString(out.String(), ""), "\n")
				if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
					t.Errorf("%s: the %s line has %.60q", c.What, format, line[i:])
				}
				if format == "json" && !json.Valid([]byte(line)) {
					t.Errorf("%s: the line is no JSON: %.300s", c.What, line)
				}
			}
		}
	}
}

func TestLogFormats(t *testing.T) {
	for _, c := range []struct {
		format   string
		terminal bool
		starts   string
	}{{"auto", false, `{"time":`}, {"json", true, `{"time":`}, {"text", false, "20"}} {
		var out bytes.Buffer
		log := NewLogger(&out, "info", c.format, c.terminal)
		log.Debug("not this")
		log.Error("failed", "error", fmt.Errorf("dial %q", "kafka://u:s3cr@h"), "url", "postgres://u:s3cr@h/d")
		if !strings.HasPrefix(out.String(), c.starts) || strings.Contains(out.String(), "s3cr") || strings.Contains(out.String(), "not this") {
			t.Errorf("%+v: %s", c, out.String())
		}
	}
	var out bytes.Buffer
	NewLogger(&out, "info", "auto", true).Info("hello", "n", 1)
	if !strings.Contains(out.String(), "\x1b[") {
		t.Errorf("a terminal's log has no colour: %q", out.String())
	}
}

// A duration reads the same in text and in JSON.
func TestDurationsAreTexts(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		NewLogger(&out, "info", format, false).Info("waited", "after", 1500*time.Millisecond)
		if !strings.Contains(out.String(), "1.5s") {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}
