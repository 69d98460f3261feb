package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// An agent asks what happened, in the protocol's two eras: by the SDK's own client, and by the lines of a client of 2024.
func TestAnAgentAsksTheLog(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	writer := w.Writer(t, Kinds)
	writer.Fill(5)
	StartExporter(t, "the exporter", w.Env)
	w.AwaitComplete(t, writer, Kinds)
	api := dynamic.NewForConfigOrDie(w.Kube.Config).Resource(ConfigMaps.GVR).Namespace("default")
	created, err := api.Create(t.Context(), sample(ConfigMaps, "asked-about", 0, 0), metav1.CreateOptions{})
	must(t, err)
	created.SetLabels(map[string]string{"team": "shop"})
	_, err = api.Update(t.Context(), created, metav1.UpdateOptions{})
	must(t, err)
	must(t, api.Delete(t.Context(), "asked-about", metav1.DeleteOptions{}))
	w.AwaitComplete(t, writer, Kinds)

	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v0"}, nil).
		Connect(t.Context(), &mcp.CommandTransport{Command: Command(t, w.Env, "mcp")}, nil)
	must(t, err)
	defer session.Close()
	ask := func(tool, arguments string) string {
		t.Helper()
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
		must(t, err)
		text, err := json.Marshal(result)
		must(t, err)
		return string(text)
	}
	const object = `"types":["cm"],"namespace":"default","name":"asked-about"`
	for _, test := range []struct{ tool, arguments, want string }{
		{"object_history", object, `"op":"updated"`},
		{"object_history", object, `metadata.labels`},
		{"what_changed", object + `,"since":"10m"`, `"op":"deleted"`},
		{"state_at", object + `,"at":"` + created.GetResourceVersion() + `"`, `"name":"asked-about"`},
		{"difference", `"types":["cm"],"from":"` + created.GetResourceVersion() + `"`, `"name":"asked-about"`},
		{"coverage", ``, `"resource":"widgets.example.com"`},
		{"state_at", `"types":["cm"],"namespace":"default","name":"never-was"`, "There was none of cm/never-was in namespace default"},
		{"what_changed", `"types":["daemonsets"]`, `"isError":true`},
	} {
		if answer := ask(test.tool, "{"+test.arguments+"}"); !strings.Contains(answer, test.want) {
			t.Errorf("%s {%s} has no %s:\n%s", test.tool, test.arguments, test.want, answer)
		}
	}
	w.asksAsOf2024(t, object)
}

func (w *World) asksAsOf2024(t *testing.T, object string) {
	t.Helper()
	c := Command(t, w.Env, "mcp")
	in, err := c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	answers := bufio.NewReader(out)
	for id, request := range []string{
		`"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"old","version":"1"}}`,
		`"method":"tools/list"`,
		`"method":"tools/call","params":{"name":"object_history","arguments":{` + object + `}}`,
	} {
		_, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,%s}`+"\n", id+1, request)
		must(t, err)
		answer, err := answers.ReadString('\n')
		if want := []string{`"2024-11-05"`, `"what_changed"`, `asked-about`}[id]; err != nil || !strings.Contains(answer, want) {
			t.Errorf("%s has no %s: %v %s", request, want, err, answer)
		}
		if id == 0 {
			_, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
			must(t, err)
		}
	}
	must(t, in.Close())
	must(t, c.Wait()) // it ends with its client
}
