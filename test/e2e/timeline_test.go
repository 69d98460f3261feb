package e2e

import (
	"html"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	bars  = regexp.MustCompile(`<a href="[^"]*" aria-label="[^"]*: (\d+) created, (\d+) updated, (\d+) deleted`)
	spans = regexp.MustCompile(`class="span missing"[^>]*><title>([^<]*)`)
)

// The timeline of a log with three gaps counts each change that the log has, by kind and operation, and draws the gaps.
func TestTheTimelineCountsWhatTheLogHas(t *testing.T) {
	t.Parallel()
	w := NewFileWorld(t)
	kinds := []Kind{ConfigMaps, Deployments}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds))
	writer := w.Writer(t, kinds).Fill(5)
	for range 3 {
		e := StartExporter(t, "the exporter", w.Env).AwaitReady(t)
		writer.Run(60)
		w.AwaitComplete(t, writer, kinds)
		e.Kill()
		writer.Run(40)
		must(t, w.Kube.Compact(t.Context(), 0))
		must(t, w.Kube.RestartAPIServer(t.Context()))
	}
	StartExporter(t, "the last exporter", w.Env).AwaitReady(t)
	log := w.AwaitComplete(t, writer, kinds)
	address, kill := w.serveMirror(t, t.TempDir())
	defer kill()
	for _, kind := range kinds {
		want := map[string]int{}
		for _, r := range log.Records {
			if r.Topic == w.Prefix+"."+kind.ID() && r.Op != "tombstone" {
				want[r.Op]++
			}
		}
		text := getPage(t, address+"/?since=1h&type="+kind.ID())
		got := map[string]int{"r": want["r"]}
		for _, bar := range bars.FindAllStringSubmatch(text, -1) {
			for i, op := range []string{"c", "u", "d"} {
				n, err := strconv.Atoi(bar[i+1])
				must(t, err)
				got[op] += n
			}
		}
		if got["c"] != want["c"] || got["u"] != want["u"] || got["d"] != want["d"] || want["d"] == 0 {
			t.Errorf("the timeline of %s counts %v, the log has %v", kind.ID(), got, want)
		}
		gaps := map[string]bool{}
		for _, span := range spans.FindAllStringSubmatch(text, -1) {
			if title := html.UnescapeString(span[1]); !strings.Contains(title, "begins later") {
				gaps[title] = true
			}
		}
		if len(gaps) != 3 {
			t.Errorf("the timeline of %s draws the gaps %v", kind.ID(), gaps)
		}
	}
}

func getPage(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	r.Header.Set("Accept", "text/html")
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s", url, answer.Status, text)
	}
	return string(text)
}
