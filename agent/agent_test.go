package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/internal/web"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

var (
	began = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	pods  = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	// A Deployment owns web-02, and a Node owns web-03.
	nodes       = change.NewStream(change.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}, "", "", "")
	deployments = change.NewStream(change.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}, "", "", "")
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

// writtenLog is a log with batches at given minutes. In minute n versions are up to n.
type writtenLog struct {
	t      *testing.T
	copied []sinks.Copied
	last   map[string][]byte
}

func (w *writtenLog) pod(minute int, op change.Op, name, image string) change.Change {
	owner := ""
	if name == "web-02" {
		owner = `"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"plan","uid":"plan","controller":true}],`
	}
	if name == "web-03" {
		owner = `"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n1","controller":true}],`
	}
	return w.change(pods, minute, op, name, owner, image)
}

func (w *writtenLog) change(stream *change.Stream, minute int, op change.Op, name, owner, image string) change.Change {
	c := change.Change{Stream: stream, Op: op, Namespace: "shop", Name: name, UID: name, ResourceVersion: change.VersionOf(uint64(minute)),
		Time: began.Add(time.Duration(minute) * time.Minute), Before: w.last[name]}
	if stream == nodes {
		c.Namespace = ""
	}
	if delete(w.last, name); op != change.Delete {
		c.After = fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"name":%q,"namespace":"shop","uid":%q,%s"resourceVersion":"%d","managedFields":[]},`+
			`"spec":{"image":%q}}`, stream.Resource.Kind, stream.Resource.APIVersion(), name, name, owner, minute, image)
		w.last[name] = c.After
	}
	return c
}

func (w *writtenLog) batch(minute int, controls []change.Control, changes ...change.Change) {
	moment := began.Add(time.Duration(minute) * time.Minute)
	for i := range controls {
		controls[i].TimeMs = moment.UnixMilli()
	}
	w.copied = append(w.copied, sinks.Copied{Cluster: "c", Logged: moment, Batch: change.Batch{Epoch: 1, Seq: uint64(len(w.copied) + 1), Changes: changes, Controls: controls,
		Positions: []change.Position{{Stream: pods.ID(), ResourceVersion: change.VersionOf(uint64(minute)), Time: moment},
			{Stream: deployments.ID(), ResourceVersion: change.VersionOf(uint64(minute)), Time: moment},
			{Stream: nodes.ID(), ResourceVersion: change.VersionOf(uint64(minute)), Time: moment}}}})
}

// newLog returns a log with 20 Pods. One is updated, one deleted with its owner, and a gap of ten minutes is not recovered.
func newLog(t *testing.T) *sqlite.Reader {
	w := &writtenLog{t: t, last: map[string][]byte{}}
	var first []change.Change
	for i := range 20 {
		first = append(first, w.pod(1, change.Read, fmt.Sprintf("web-%02d", i), "a:1"))
	}
	first = append(first, w.change(deployments, 1, change.Read, "plan", "", ""), w.change(nodes, 1, change.Read, "n1", "", ""))
	w.batch(1, []change.Control{change.SnapshotBeginControl(pods.ID(), ""), change.SnapshotEndControl(pods.ID(), "1", 20),
		change.SnapshotBeginControl(deployments.ID(), ""), change.SnapshotEndControl(deployments.ID(), "1", 1),
		change.SnapshotBeginControl(nodes.ID(), ""), change.SnapshotEndControl(nodes.ID(), "1", 1)}, first...)
	for minute := 2; minute <= 60; minute++ {
		switch {
		case minute == 10:
			w.batch(10, nil, w.pod(10, change.Update, "web-01", "a:2"))
		case minute == 20:
			w.batch(20, nil, w.change(deployments, 20, change.Delete, "plan", "", ""))
		case minute == 21:
			w.batch(21, nil, w.pod(21, change.Delete, "web-02", ""))
		case minute == 23:
			w.batch(23, nil, w.change(nodes, 23, change.Delete, "n1", "", ""))
		case minute == 24:
			w.batch(24, nil, w.pod(24, change.Delete, "web-03", ""))
		case minute == 35:
			w.batch(35, []change.Control{change.GapControl(pods.ID(), "35", change.Gap{ID: "g", From: "25", To: "35", Reason: "the server has compacted it"}, "")})
		case minute < 25 || minute > 35:
			w.batch(minute, nil)
		}
	}
	file := must[*sqlitefile.File](t)(sqlitefile.Own(t.Context(), filepath.Join(t.TempDir(), "log")))
	t.Cleanup(file.Close)
	sink := must[*sqlite.Sink](t)(sqlite.New(t.Context(), file, sqlite.Config{Cluster: "c"}))
	to, _, err := sink.NewCopy(t.Context())
	if err == nil {
		err = to.Write(t.Context(), w.copied, sqlite.Copied{Identity: "i"})
	}
	if err != nil {
		t.Fatal(err)
	}
	return must[*sqlite.Reader](t)(sqlite.NewReader(t.Context(), file, "c"))
}

func session(t *testing.T) *mcp.ClientSession {
	s := newServer(&log{Reader: newLog(t), now: func() time.Time { return began.Add(61 * time.Minute) }}, "v0", nil)
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
	server := httptest.NewServer(Handler(newLog(t), "v0", rights{}))
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
