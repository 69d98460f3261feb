package stdout

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"kubecdc/change"
	"kubecdc/internal/screen"
	"kubecdc/sinks"
	"kubecdc/test/hostile"
)

var deployments = change.NewStream(change.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}, "", "", "")

func update() change.Change {
	return change.Change{
		Stream: deployments, Op: change.Update, Namespace: "default", Name: "web", UID: "u", ResourceVersion: "12",
		Before:     []byte(`{"metadata":{"resourceVersion":"11","managedFields":[1]},"spec":{"replicas":1,"paused":true},"status":{}}`),
		After:      []byte(`{"metadata":{"resourceVersion":"12","managedFields":[2]},"spec":{"replicas":2},"status":{"ready":1},"extra":5}`),
		Time:       time.Date(2024, 1, 2, 3, 4, 5, 0, time.Local),
		Provenance: change.Provenance{Fields: []byte("spec.paused,spec.replicas,status.ready,extra")},
	}
}

func show(t *testing.T, format Format, b *change.Batch) string {
	t.Helper()
	var out bytes.Buffer
	s := New(Options{Envelope: change.Envelope{Cluster: "prod", Prefix: "k8s", Version: "v1"}, Out: &out, Format: format})
	opened, err := s.Open(t.Context(), 0, 1, sinks.Durable{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opened.Log.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A change is one line of text without control characters, or one line of JSON with the object's content.
func TestHostileNamesAndContentsAreOneLine(t *testing.T) {
	for i, c := range append(hostile.Names(), hostile.Contents()...) {
		u, content := update(), `{"a":1}`
		if i < len(hostile.Names()) {
			u.Name = c.Text
		} else {
			content = c.Text
		}
		u.After = hostile.Object("apps/v1", "Deployment", u.Namespace, u.Name, u.UID, "12", content)
		u.Provenance = change.Provenance{Fields: []byte("spec." + c.Text), Managers: []byte(c.Text)}
		b := &change.Batch{Changes: []change.Change{u}, Malformed: []change.Malformed{{Stream: "pods", Bytes: []byte(c.Text), Reason: c.Text}},
			Controls: []change.Control{{Type: change.ControlStreamError, Stream: "pods", Cause: c.Text},
				{Type: change.ControlGap, Stream: "pods", Gap: &change.Gap{From: "1", To: "5", Reason: c.Text}},
				{Type: change.ControlProof, Stream: "pods", Proof: &change.Proof{Result: change.ProofDifferent,
					Missing: change.Differing{Objects: 1, Keys: []string{c.Text}}}}}}
		for _, format := range []Format{Text, JSON} {
			lines := strings.Split(strings.TrimSuffix(show(t, format, b), "\n"), "\n")
			if len(lines) != 5 {
				t.Errorf("%s: %d lines in %s: %.200q", c.What, len(lines), format, lines)
			}
			for _, line := range lines {
				if j := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); j >= 0 && format == Text {
					t.Errorf("%s: a line has %.40q", c.What, line[j:])
				}
				if format == JSON && !json.Valid([]byte(line)) {
					t.Errorf("%s: a line is no JSON: %.200s", c.What, line)
				}
			}
		}
	}
}

func TestText(t *testing.T) {
	deleted := update()
	deleted.Op, deleted.Name, deleted.After, deleted.Inferred, deleted.Provenance = change.Delete, "a", nil, true, change.Provenance{}
	objects := 7
	got := show(t, Text, &change.Batch{
		Changes: []change.Change{update(), deleted},
		Controls: []change.Control{
			{Type: change.ControlWatermark},
			{Type: change.ControlSnapshotEnd, Stream: "pods", ResourceVersion: "9", Objects: &objects, TimeMs: update().Time.UnixMilli()},
			{Type: change.ControlGap, Stream: "pods", TimeMs: update().Time.UnixMilli(), Gap: &change.Gap{From: "1", To: "5", Recovered: 3, Reason: "compacted"}},
		},
	})
	want := `03:04:05 gap     pods from 1 to 5: 3 recovered, 0 inferred, NOT complete: compacted
2024-01-02 03:04:05 ~ deploy/web -n default  spec.paused, spec.replicas, status.ready, extra
2024-01-02 03:04:05 - deploy/a -n default  (inferred)
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Unparsable bytes are shown unchanged.
func TestMalformed(t *testing.T) {
	b := &change.Batch{Malformed: []change.Malformed{
		{Stream: "pods", Bytes: []byte(`{"kind":5}`), Reason: "not an object"}, {Stream: "pods", Bytes: []byte("\xff\n"), Reason: "no"}}}
	want := `{"type":"malformed","cluster":"prod","stream":"pods","reason":"not an object","text":"{\"kind\":5}"}
{"type":"malformed","cluster":"prod","stream":"pods","reason":"no","base64":"/wo="}
`
	if got := show(t, JSON, b); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := show(t, Text, b); !strings.Contains(got, `malformed pods: 10 bytes from the API server can't be parsed: not an object: "{\"kind\":5}"`) {
		t.Error(got)
	}
}

// A pipe gets the same records as Kafka's readers.
func TestPipeGetsJSON(t *testing.T) {
	got := show(t, Auto, &change.Batch{Changes: []change.Change{update(), update()}})
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2:\n%s", len(lines), got)
	}
	var record struct {
		Op     string
		Source map[string]any
	}
	if err := json.Unmarshal([]byte(lines[0]), &record); err != nil || record.Op != "u" || record.Source["db"] != "prod" {
		t.Errorf("record %+v, %v", record, err)
	}
}

// A pipe has the control records about completeness, on lines with type and without op. An end comes after the changes that it
// ends.
func TestPipeGetsControlRecords(t *testing.T) {
	objects := 1
	got := show(t, JSON, &change.Batch{Slot: 0, Epoch: 3, Seq: 9, Changes: []change.Change{update()}, Controls: []change.Control{
		{Type: change.ControlOpen}, {Type: change.ControlSnapshotBegin, Stream: "pods"},
		{Type: change.ControlSnapshotEnd, Stream: "pods", ResourceVersion: "12", Objects: &objects, TimeMs: 5},
		{Type: change.ControlGap, Stream: "pods", Gap: &change.Gap{ID: "pods:1", From: "1", To: "5", Reason: "compacted"}},
		{Type: change.ControlStreamError, Stream: "pods", Cause: "forbidden"}, {Type: change.ControlStreamRecovered, Stream: "pods"},
		{Type: change.ControlStreamEnd, Stream: "nodes"}, {Type: change.ControlStreamReselected, Stream: "nodes"},
		{Type: change.ControlWatermark, Stream: "pods"}, {Type: change.ControlBatch},
	}})
	var kinds []string
	for _, text := range strings.Split(strings.TrimSpace(got), "\n") {
		var line struct {
			Op, Type, Cluster, Stream string
			Epoch                     int64
			Batch                     uint64
			Gap                       *change.Gap
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if line.Op == "" && (line.Cluster != "prod" || line.Stream == "" || line.Epoch != 3 || line.Batch != 9) {
			t.Errorf("a control record is printed as %s", text)
		}
		if line.Type == string(change.ControlGap) && (line.Gap == nil || line.Gap.Complete || line.Gap.Reason != "compacted") {
			t.Errorf("the gap is printed as %s", text)
		}
		kinds = append(kinds, line.Op+line.Type)
	}
	if all := strings.Join(kinds, " "); all != "snapshot-begin gap stream-error stream-recovered stream-reselected u snapshot-end stream-end" {
		t.Errorf("the lines are %s", all)
	}
}

func TestColours(t *testing.T) {
	c := update()
	if got := string(newTextLines(Show{}, screen.NewColours(true)).change(nil, &c)); !strings.Contains(got, "\x1b[33m~ \x1b[") {
		t.Errorf("an update is not yellow: %q", got)
	}
}

func TestSummaryIsShort(t *testing.T) {
	if got := summary([]string{"a", "b", "c", "d", "e", "f"}); got != "a, b, c, d +2" {
		t.Error(got)
	}
}
