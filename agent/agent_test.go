package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"kubecdc/answer"
	"kubecdc/internal/web"
	"kubecdc/test/gappedlog"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func session(t *testing.T) *mcp.ClientSession {
	log := gappedlog.New(t)
	s := newServer(answer.New(log, answer.Follows(log), func() time.Time { return gappedlog.Began.Add(61 * time.Minute) }, nil), "v0", nil)
	ours, theirs := mcp.NewInMemoryTransports()
	must[*mcp.ServerSession](t)(s.Connect(t.Context(), ours, nil))
	c := must[*mcp.ClientSession](t)(mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v0"}, nil).Connect(t.Context(), theirs, nil))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// call returns a tool's answer, as structured output and as text.
func call(t *testing.T, s *mcp.ClientSession, tool, arguments string) (structured, text string) {
	t.Helper()
	result := must[*mcp.CallToolResult](t)(s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)}))
	for _, c := range result.Content {
		text += c.(*mcp.TextContent).Text
	}
	if result.IsError {
		return "", "error: " + text
	}
	return string(must[[]byte](t)(json.Marshal(result.StructuredContent))), text
}

func TestNothingIsSaidOnlyWhereItIsProven(t *testing.T) {
	s := session(t)
	for _, test := range []struct{ tool, arguments, text, has, lacks string }{
		{"what_changed", `{"since":"20m","namespace":"shop"}`, "There was no change of all that the log has in namespace shop between 2026-06-01T12:41:00Z and 2026-06-01T13:01:00Z: the log has every change", `"lacks":[]`, ""},
		{"what_changed", `{"since":"2026-06-01T12:26:00Z","until":"2026-06-01T12:30:00Z"}`, "It is not known whether", "compacted", "There was no"},
		{"what_changed", `{"since":"2026-06-01T12:02:00Z","until":"2026-06-01T12:22:00Z","types":["po"]}`, "2 entries", `"~ spec.image: \"a:1\" → \"a:2\""`, "compacted"},
		{"what_changed", `{"since":"2h","until":"2026-06-01T12:00:30Z"}`, "It is not known whether", "only since 2026-06-01T12:01:00Z", ""},
		{"what_changed", `{"since":"2026-06-01T12:02:00Z","types":["po"],"name":"web-02"}`, "1 entry", `"op":"deleted"`, "web-01"},
		{"what_changed", `{"types":["secrets"]}`, "error: ", "", ""},
		{"what_changed", `{"since":"08:00"}`, "error: since \"08:00\": it has no zone", "", ""},
		{"what_changed", `{"by":"alice"}`, "error: by: the log has no audit events", "", ""},
		{"what_changed", `{"name":"web-01"}`, "error: name is", "", ""},
		{"what_changed", `{"cursor":"nonsense"}`, "error: cursor", "", ""},
		{"object_history", `{"types":["pods"],"name":"web-01","namespace":"shop","until":"2026-06-01T12:24:00Z"}`, "2 entries", `"op":"updated"`, ""},
		{"object_history", `{"types":["pods"],"name":"web-77","until":"2026-06-01T12:24:00Z"}`, "There was no change of pods/web-77 until", `"lacks":[]`, ""},
		{"object_history", `{"types":["pods"],"name":"web-77"}`, "It is not known whether", "compacted", ""},
		{"state_at", `{"at":"2026-06-01T12:15:00Z","types":["pods"],"name":"web-02"}`, "1 object at 2026-06-01T12:15:00Z", `"image":"a:1"`, "managedFields"},
		{"state_at", `{"at":"2026-06-01T12:24:00Z","types":["pods"],"name":"web-02"}`, "There was none of pods/web-02 at 2026-06-01T12:24:00Z", `"lacks":[]`, ""},
		{"state_at", `{"types":["pods"],"name":"web-02"}`, "", `"at":"2026-06-01T13:00:00Z"`, ""},
		{"state_at", `{}`, "error: types are missing", "", ""},
		{"difference", `{"from":"2026-06-01T12:05:00Z","to":"2026-06-01T12:22:00Z"}`, "3 objects differing", `"op":"deleted"`, ""},
		{"difference", `{"from":"2026-06-01T12:11:00Z","to":"2026-06-01T12:18:00Z"}`, "Nothing differs", `"lacks":[]`, ""},
		{"coverage", `{}`, "The log has 3 streams. Something is lacking in 1", "compacted", ""},
	} {
		structured, text := call(t, s, test.tool, test.arguments)
		if !strings.HasPrefix(text, test.text) && !strings.Contains(text, test.text) || !strings.Contains(structured, test.has) || test.lacks != "" && strings.Contains(structured, test.lacks) {
			t.Errorf("%s %s: %s\n%s", test.tool, test.arguments, text, structured)
		}
	}
}

// The pages of an answer are the answer.
func TestPages(t *testing.T) {
	s := session(t)
	for tool, arguments := range map[string]string{"state_at": `"types":["pods"],"at":"30m"`, "difference": `"from":"2026-06-01T12:02:00Z","to":"now"`,
		"what_changed": `"since":"start"`, "object_history": `"types":["pods"],"name":"web-01"`} {
		everything, _ := call(t, s, tool, "{"+arguments+`,"maxBytes":1000000}`)
		entries := func(answer string) (all []json.RawMessage, cursor string) {
			var a struct {
				Objects, Changes []json.RawMessage
				Cursor           string
			}
			if err := json.Unmarshal([]byte(answer), &a); err != nil {
				t.Fatal(err, answer)
			}
			return append(a.Objects, a.Changes...), a.Cursor
		}
		want, _ := entries(everything)
		var got []json.RawMessage
		pages := 0
		for cursor := ""; pages == 0 || cursor != ""; pages++ {
			page, _ := call(t, s, tool, fmt.Sprintf(`{%s,"maxBytes":400,"cursor":%q}`, arguments, cursor))
			var some []json.RawMessage
			some, cursor = entries(page)
			got = append(got, some...)
		}
		if fmt.Sprintf("%s", got) != fmt.Sprintf("%s", want) || len(want) == 0 {
			t.Errorf("%s: %d pages have %s\nwant %s", tool, pages, got, want)
		}
	}
}

// rights lets alice read Pods of the namespace shop, carol all there, as a Role with * does, and admin all.
type rights struct{}

func (rights) Allow(_ context.Context, token string, asked web.Asked) error {
	a := asked.ResourceAttributes
	switch {
	case token != "alice" && token != "admin" && token != "bob" && token != "carol":
		return web.ErrUnknownToken
	case token == "admin" || a == nil || token == "carol" && a.Namespace == "shop" || token == "alice" && a.Resource == "pods" && a.Namespace == "shop":
		return nil
	}
	return web.ErrNotAllowed
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// A client gets nothing of what it may not read: no object, no count, no name in a reason.
func TestRights(t *testing.T) {
	log := gappedlog.New(t)
	answers := func(r *http.Request) *answer.Log {
		return answer.New(log, answer.Follows(log), time.Now, func(asked web.Asked) error { return web.May(rights{}, r, asked) })
	}
	server := httptest.NewServer(Handler(answers, "v0", rights{}))
	defer server.Close()
	const deleted = `{"since":"2026-06-01T12:15:00Z","until":"2026-06-01T12:24:00Z","namespace":"shop"`
	for _, test := range []struct{ token, tool, arguments, has, lacks string }{
		{"admin", "what_changed", deleted + "}", `"resource":"deployments.apps"`, "may not"},
		{"admin", "object_history", `{"types":["pods"],"name":"web-02","namespace":"shop"}`, "with its owner Deployment", "may not"},
		{"alice", "what_changed", deleted + "}", "you may not read deployments.apps, nodes there", `"resource":"deployments.apps"`},
		{"alice", "object_history", `{"types":["pods"],"name":"web-02","namespace":"shop"}`, `"op":"deleted"`, "with its owner"},
		{"alice", "what_changed", deleted + `,"types":["deploy"]}`, "error: you may not read deployments.apps", "12:20"},
		{"alice", "state_at", `{"types":["pods"],"at":"2026-06-01T12:24:00Z"}`, "error: you may not read pods", "web-"},
		{"alice", "difference", `{"from":"2026-06-01T12:05:00Z","to":"2026-06-01T12:24:00Z","namespace":"shop"}`, "you may not read deployments.apps", `"resource":"deployments.apps"`},
		{"alice", "coverage", `{"namespace":"shop"}`, `"resource":"pods"`, `"resource":"deployments.apps"`},
		{"admin", "object_history", `{"types":["pods"],"name":"web-03"}`, "with its owner Node", "may not"},
		{"carol", "object_history", `{"types":["pods"],"name":"web-03","namespace":"shop"}`, `"op":"deleted"`, "with its owner"},
		{"carol", "object_history", `{"types":["pods"],"name":"web-02","namespace":"shop"}`, "with its owner Deployment", "may not"},
		{"carol", "what_changed", deleted + "}", `"resource":"deployments.apps"`, "nodes"},
		{"carol", "state_at", `{"types":["nodes"],"namespace":"shop","at":"2026-06-01T12:15:00Z"}`, "There was none", "n1"},
		{"bob", "coverage", `{"namespace":"shop"}`, "error: you may read nothing there", "compacted"},
	} {
		c := must[*mcp.ClientSession](t)(mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v0"}, nil).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: server.URL, HTTPClient: &http.Client{Transport: bearer(test.token)}}, nil))
		structured, text := call(t, c, test.tool, test.arguments)
		_ = c.Close()
		if answer := text + structured; !strings.Contains(answer, test.has) || strings.Contains(answer, test.lacks) {
			t.Errorf("%s: %s %s: %s", test.token, test.tool, test.arguments, answer)
		}
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, test := range []struct {
		method, token, origin string
		code                  int
	}{{"POST", "", "", 401}, {"POST", "eve", "", 401}, {"GET", "alice", "", 405}, {"POST", "alice", "https://evil.example.com", 403}, {"POST", "alice", "", 200}} {
		r := must[*http.Request](t)(http.NewRequest(test.method, server.URL, strings.NewReader(call)))
		r.Header = http.Header{"Authorization": {"Bearer " + test.token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		answer := must[*http.Response](t)(http.DefaultClient.Do(r))
		body := must[[]byte](t)(io.ReadAll(answer.Body))
		answer.Body.Close()
		if answer.StatusCode != test.code || test.code == 200 && !strings.Contains(string(body), "what_changed") {
			t.Errorf("%s by %q of %q: %s %.300s", test.method, test.token, test.origin, answer.Status, body)
		}
	}
}
