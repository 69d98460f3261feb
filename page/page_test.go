package page_test

import (
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"kubecdc/serve"
	"kubecdc/test/gappedlog"
	"kubecdc/test/require"
)

var must = require.NoError

func server(t *testing.T) *httptest.Server {
	s := httptest.NewServer(serve.NewClusters(gappedlog.New(t), nil, slog.New(slog.DiscardHandler), nil))
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, s *httptest.Server, path string) (code int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
	must(t, err)
	r.Header.Set("Accept", "text/html,application/xhtml+xml")
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(body)
}

const hour = "since=2026-06-01T12:00:00Z&until=2026-06-01T13:00:00Z"

var (
	hrefs  = regexp.MustCompile(`href="([^"#]*)"`)
	values = regexp.MustCompile(`value="[^"]*"`) // what was asked stands there as it is, since it is asked again
)

// Each link of each page leads to a page of this server. The first hundred are followed.
func TestEachLinkLeadsToAPage(t *testing.T) {
	s := server(t)
	waiting := []string{"/?" + hour, "/", "/at/2026-06-01T12:30:00Z/?type=pods", "/?from=2026-06-01T12:02:00Z&to=2026-06-01T12:59:00Z"}
	seen := map[string]bool{}
	for pages := 0; len(waiting) > 0 && pages < 100; pages++ {
		path := waiting[0]
		waiting = waiting[1:]
		code, text := get(t, s, path)
		if code != http.StatusOK {
			t.Fatalf("%s: %d\n%s", path, code, text[strings.Index(text, "<main")+1:])
		}
		for _, found := range hrefs.FindAllStringSubmatch(text, -1) {
			if link := html.UnescapeString(found[1]); !seen[link] && link != "data:," {
				if !strings.HasPrefix(link, "/") {
					t.Errorf("%s links to %s", path, link)
				}
				seen[link] = true
				waiting = append(waiting, link)
			}
		}
	}
}

// Each page says what it asked, what the log can't tell of that, and how a terminal asks the same. Text of others is only text.
func TestPagesSayWhatTheyShow(t *testing.T) {
	s := server(t)
	for path, wants := range map[string][]string{
		"/?" + hour: {"6 entries", "What the log can&#39;t tell", `class="span missing"`, "pods: changes may be missing between 2026-06-01 12:24:00 and 2026-06-01 12:35:00",
			"2026-06-01 12:20:00 to 2026-06-01 12:20:37: 0 created, 0 updated, 1 deleted", "po/web-01", "exporter history --since 2026-06-01T12:00:00Z"},
		"/?since=2026-06-01T12:02:00Z&until=2026-06-01T12:59:00Z&type=deploy": {"✓ ", "deploy/plan"},
		"/?" + hour + "&namespace=%3Cscript%3E%E2%80%AE":                      {"&lt;script&gt;", "exporter history -n &#39;&lt;script&gt;\\u202e&#39;"},
		"/?type=pods&namespace=shop&name=web-01":                              {"~ spec.image", "exporter history --status pods/web-01 -n shop"},
		"/?type=pods&namespace=shop&name=web-02":                              {"with its owner", "deleted"},
		"/at/2026-06-01T12:15:00Z/?type=pods":                                 {"20 objects", "web-02", "exporter kubectl --at 2026-06-01T12:15:00Z -- get pods"},
		"/?since=start":                                                       {"6 entries", "exporter history --since start", "2026-06-01 12:01:00"},
		"/?" + hour + "&name=":                                                {"12:30:00 to 2026-06-01 12:30:38: 0 created, 0 updated, 0 deleted; changes may be missing"},
		"/at/2026-06-01T12:15:00Z/?type=pods&by=alice&since=1h":               {"-- get pods</code>"},
		"/at/2026-06-01T12:15:00Z/":                                           {"deployments.apps", "nodes", "pods"},
		"/?from=2026-06-01T12:02:00Z&to=2026-06-01T12:59:00Z":                 {"pods shop/web-01", "before: ", "exporter diff --from 2026-06-01T12:02:00Z"},
	} {
		code, text := get(t, s, path)
		for _, want := range wants {
			if code != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: %d, without %q\n%s", path, code, want, text[strings.Index(text, "<main")+1:])
			}
		}
		if strings.Contains(values.ReplaceAllString(text, ""), "\u202e") || strings.Count(text, "<script>") != 1 {
			t.Errorf("%s has text of others as it is", path)
		}
	}
	for path, want := range map[string]string{"/?since=nonsense": "since", "/?type=nothings": "the log has no changes of",
		"/?at=9999-01-01T00:00:00Z&type=pods": "at", "/?name=x": "give the one type", "/at/checkpoint/0/1/?type=pods": "checkpoint"} {
		if code, text := get(t, s, path); code != http.StatusBadRequest || !strings.Contains(text, want) || !strings.Contains(text, "<form") {
			t.Errorf("%s: %d, want %q", path, code, want)
		}
	}
}

// Programs get the paths, as from an API server.
func TestOthersGetThePaths(t *testing.T) {
	answer, err := http.Get(server(t).URL)
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	want := `{"paths":["/api","/api/v1","/apis","/apis/apps","/apis/apps/v1","/healthz","/livez","/openapi/v3","/readyz","/version"]}`
	if strings.TrimSpace(string(body)) != want {
		t.Errorf("it is %s, want %s", body, want)
	}
}

// A dashboard gets what people changed, and each gap as a span.
func TestADashboardGetsMarks(t *testing.T) {
	s := server(t)
	code, text := get(t, s, "/marks?"+hour+"&type=pods,deploy")
	for _, want := range []string{`{"time":"2026-06-01T12:24:00Z","timeEnd":"2026-06-01T12:35:00Z","title":"changes may be missing","text":"pods: the server has compacted it","tags":"gap"}`,
		`{"time":"2026-06-01T12:20:00Z","title":"deploy/plan deleted","text":"","tags":"deployments.apps,deleted,shop"}`,
		`{"time":"2026-06-01T12:10:00Z","title":"po/web-01 updated","text":"~ spec.image`} {
		if code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("the marks are %d, without %s:\n%s", code, want, text)
		}
	}
	if code, text := get(t, s, "/marks?since=1m&until=2999-01-01T00:00:00Z"); code != http.StatusOK || !strings.HasPrefix(text, "[") {
		t.Errorf("with an end in the future: %d %s", code, text)
	}
	if code, text := get(t, s, "/marks?since=x"); code != http.StatusBadRequest || !strings.Contains(text, "since") {
		t.Errorf("a wrong question: %d %s", code, text)
	}
}

// Chromium opens the pages: make page.
func TestThePagesInABrowser(t *testing.T) {
	browser := os.Getenv("KUBECDC_TEST_BROWSER")
	if browser == "" {
		t.Skip("a browser is not part of what tests need; make page installs it and runs this test")
	}
	s := server(t)
	for name, path := range map[string]string{"timeline": "/?" + hour, "object": "/?type=pods&namespace=shop&name=web-01",
		"state": "/at/2026-06-01T12:15:00Z/?type=pods", "diff": "/?from=2026-06-01T12:02:00Z&to=2026-06-01T12:59:00Z"} {
		shots := os.Getenv("KUBECDC_TEST_SHOTS")
		if name != "timeline" {
			shots = ""
		}
		out, err := exec.CommandContext(t.Context(), browser, "-still", "-url", s.URL+path, "-name", name, "-await", "Ask", "-axe", os.Getenv("KUBECDC_TEST_AXE"),
			"-shots", shots).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
}
