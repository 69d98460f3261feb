package status

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/live"
	"kubecdc/test/hostile"
	"kubecdc/test/require"
)

var must = require.NoError

// manyStreams returns as many streams as a large cluster has, one of them with a problem, and texts that must not be shown.
func manyStreams() *Status {
	stored := &Stored{Owners: []checkpoint.SlotOwner{{Owner: "<b>kubecdc-0</b>", Held: true, Selected: []change.StreamID{}, Epoch: 3, Seq: 1234, Time: now}}}
	for i := range 199 {
		stored.Positions = append(stored.Positions, confirmed(change.StreamID(fmt.Sprintf("kind%d.example.com@ns-%d", i, i%3)), time.Second))
	}
	stored.Positions = append(stored.Positions, confirmed("secrets@shop?labels=app=hunter2&fields=metadata.name=hunter2", time.Hour))
	stored.Controls = []change.Control{gapAt("kind1.example.com@ns-1", time.Hour, true), proofAt("kind1.example.com@ns-1", time.Minute, change.ProofEqual),
		proofAt("kind2.example.com@ns-2", time.Minute, change.ProofDifferent)}
	process := running(wrong("checkpoint", `dial <script>alert("x")</script>`))
	process.Started, process.Servers = now, map[string]live.Server{"sink": {Up: true, Since: now}, "checkpoint": {Since: now}}
	shown := options
	shown.Version = "v1"
	return Make(shown, stored, process)
}

func serve(t *testing.T, now func() *Status) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(Handler(now))
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, url string) (http.Header, string) {
	t.Helper()
	r, err := http.Get(url)
	must(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, r.Status, err)
	}
	return r.Header, string(text)
}

var tags = regexp.MustCompile(`(?s)<(script|style)>.*?</(script|style)>|<[^>]+>`)

// Whatever an error contains, the page, the JSON and the table show it on one line as text.
func TestHostileTextsAreShownAsText(t *testing.T) {
	for _, c := range append(hostile.Names(), hostile.Contents()...) {
		made := func() *Status {
			gap := gapAt("pods", time.Hour, false)
			gap.Gap.Reason = "lost " + c.Text
			return Make(options, &Stored{Positions: []change.Position{confirmed("pods", time.Second)}, Controls: []change.Control{gap}},
				running(wrongStream("pods", c.Text)))
		}
		s := serve(t, made)
		_, page := get(t, s.URL+"/")
		_, text := get(t, s.URL+"/status.json")
		var table strings.Builder
		made().WriteTable(&table)
		for what, shown := range map[string]string{"page": page, "JSON": text, "table": table.String()} {
			if i := strings.IndexFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }); i >= 0 {
				t.Errorf("%s: the %s has %.40q", c.What, what, shown[i:])
			}
			if what == "page" && (strings.Contains(shown, "<script>alert(1)") || strings.Contains(shown, "<img src=x")) {
				t.Errorf("%s: the page runs it", c.What)
			}
			if strings.Contains(shown, "\n12:00:00 deleted") {
				t.Errorf("%s: the %s has a false line", c.What, what)
			}
		}
		if !json.Valid([]byte(text)) {
			t.Errorf("%s: the status is no JSON", c.What)
		}
	}
}

// text returns the visible text of the page.
func text(page string) string {
	return strings.Join(strings.Fields(tags.ReplaceAllString(page, " ")), " ")
}

func TestThePageSaysAllWithoutAScript(t *testing.T) {
	s := serve(t, manyStreams)
	_, page := get(t, s.URL+"/")
	seen := text(page)
	for _, want := range []string{"✕ 3 things are wrong", "stream secrets in shop (by selectors) : not confirmed to be complete", "Streams in order 198 of 200",
		"Slots with an owner 1 of 1", "Sink ✓ up for " + clock(now), "Checkpoint ✕ down for " + clock(now), "complete, " + clock(now.Add(-time.Hour)),
		"✓ equal, " + clock(now.Add(-time.Minute)) + " 3 objects", "✕ 1 differ, " + clock(now.Add(-time.Minute)), "&lt;b&gt;kubecdc-0"} {
		if !strings.Contains(seen, want) {
			t.Errorf("the page lacks %q:\n%s", want, seen[:min(len(seen), 3000)])
		}
	}
	if !strings.Contains(page, `<noscript><meta http-equiv="refresh"`) {
		t.Error("without a script the page never changes")
	}
	if first, other := strings.Index(page, ">secrets<"), strings.Index(page, ">kind0.<wbr>example.<wbr>com<"); first > other {
		t.Error("streams with a problem do not come first")
	}
}

func TestThePageHidesNamesAndLoadsNothing(t *testing.T) {
	s := serve(t, manyStreams)
	header, page := get(t, s.URL+"/")
	_, asJSON := get(t, s.URL+"/status.json")
	for place, text := range map[string]string{"page": page, "JSON": asJSON} {
		for _, hidden := range []string{"hunter2", "a-secret-name", "<script>alert", "<b>"} {
			if place+hidden != "JSON<b>" && strings.Contains(text, hidden) {
				t.Errorf("the %s has %q", place, hidden)
			}
		}
	}
	for _, outside := range regexp.MustCompile(`(?:src|href|action)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if to := outside[1]; !strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "#") && !strings.HasPrefix(to, "data:") {
			t.Errorf("the page links to %s", to)
		}
	}
	policy := header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, part) || strings.Contains(policy, "unsafe") {
			t.Errorf("the policy is %q", policy)
		}
	}
	if inline := regexp.MustCompile(` (?:style|on[a-z]+)="`).FindString(page); inline != "" {
		t.Errorf("the policy forbids what the page has: %q", inline)
	}
}

func TestTheJSONIsTheStatus(t *testing.T) {
	_, text := get(t, serve(t, manyStreams).URL+"/status.json")
	var s Status
	must(t, json.Unmarshal([]byte(text), &s))
	if want := manyStreams(); s.Healthy || problems(&s) != problems(want) || len(s.Streams) != len(want.Streams) || *s.Streams[1].LagSeconds != 3600 {
		t.Errorf("it is %s", text[:2000])
	}
}

// An open page gets a new version after a change. The browser itself updates ages.
func TestAnOpenPageIsUpdated(t *testing.T) {
	t.Parallel() // it waits for updates
	var state atomic.Pointer[Status]
	state.Store(manyStreams())
	s := serve(t, func() *Status {
		later := *state.Load()
		later.Time = time.Now()
		return &later
	})
	ask := func(tag string) (int, string, string) {
		r, err := http.NewRequest(http.MethodGet, s.URL, nil)
		must(t, err)
		r.Header.Set("If-None-Match", tag)
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		must(t, err)
		return answer.StatusCode, answer.Header.Get("ETag"), string(body)
	}
	code, tag, _ := ask("")
	for began := time.Now(); time.Since(began) < 2*madeFor && code != http.StatusNotModified; time.Sleep(10 * time.Millisecond) {
		if code != http.StatusOK {
			t.Fatalf("answer %d", code)
		}
		code, _, _ = ask(tag)
	}
	third := manyStreams()
	third.Slots[0].Owner = "another"
	state.Store(third)
	for code = 304; code == http.StatusNotModified; {
		var body string
		if code, _, body = ask(tag); code == http.StatusOK && !strings.Contains(body, "another") || code != http.StatusOK && body != "" {
			t.Errorf("answer %d: %s", code, body)
		}
	}
}

// If many pages of a cluster with many streams are open, their content is made once for all.
func TestOpenPagesShareWhatTheyShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, s := 0, manyStreams()
		h := Handler(func() *Status { made++; return s })
		for range 100 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}
		if made != 1 {
			t.Errorf("it was made %d times", made)
		}
	})
}

// Each answer takes memory until it is read, so their number is limited.
func TestAFloodOfRequestsIsRefused(t *testing.T) {
	const more = 10
	answer := make(chan bool)
	release := sync.OnceFunc(func() { close(answer) })
	defer time.AfterFunc(10*time.Second, release).Stop()
	s := serve(t, func() *Status { <-answer; return &Status{} })
	var answered, refused atomic.Int32
	var all sync.WaitGroup
	for range mostAtOnce + more {
		all.Go(func() {
			r, err := http.Get(s.URL + "/status.json")
			if err != nil {
				t.Error(err)
				return
			}
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				answered.Add(1)
			} else if refused.Add(1) == more {
				release()
			}
		})
	}
	all.Wait()
	if answered.Load() != mostAtOnce || refused.Load() != more {
		t.Errorf("%d requests were answered, %d refused", answered.Load(), refused.Load())
	}
}
