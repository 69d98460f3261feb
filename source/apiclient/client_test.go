package apiclient

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/test/require"
)

// A proxy may answer with a page of its own and 200: the lines of that page are not events, and the request is repeated.
func TestAProxysPageIsAnErrorThatPasses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<html>\nsign in\n</html>\n"))
	}))
	defer server.Close()
	client, err := New(&rest.Config{Host: server.URL})
	must(t, err)
	pods := change.NewStream(change.Resource{Version: "v1", Plural: "pods"}, "", "", "")
	for name, request := range map[string]func(context.Context) error{
		"list": func(ctx context.Context) error {
			_, err := client.List(ctx, pods, ListOptions{}, func(*Page, *Object, error) error { return nil })
			return err
		},
		"watch": func(ctx context.Context) error {
			w, err := client.Watch(ctx, pods, false, "7", 60)
			if err == nil {
				w.Close()
			}
			return err
		},
		"document": func(ctx context.Context) error {
			_, err := client.Read(ctx, "/version")
			return err
		},
	} {
		err := request(t.Context())
		if err == nil || !strings.Contains(err.Error(), "an HTML page, as a proxy answers: <html> sign in") || IsUnreadable(err) || IsRefused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A document that is too large is an error. Its beginning is never used as the document.
func TestADocumentThatNeverEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, endless(' '))
	}))
	defer server.Close()
	client, err := New(&rest.Config{Host: server.URL})
	must(t, err)
	if text, err := client.Read(t.Context(), "/version"); text != nil || err == nil || err.Error() != "read /version: the answer has more than 64 MiB" {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

var must = require.NoError
