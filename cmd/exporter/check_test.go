package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A check warns of an old API server, and of one whose clock is wrong.
func TestCheckComparesVersionAndClock(t *testing.T) {
	server := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		switch r.URL.Path {
		case "/version":
			_, _ = w.Write([]byte(`{"major":"1","minor":"20","gitVersion":"v1.20.3+k3s1"}`))
		case "/api/v1/namespaces/kube-system":
			_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"6bfbc0b2-9e32-4f73-9f5a-3a0f1c2d4e5f","resourceVersion":"4"}}`))
		default:
			http.NotFound(w, r)
		}
	})
	s := start(t, "check", kubeconfig(t, server.URL, "", ""))
	exit(t, s.Cmd)
	for _, want := range []string{"version v1.20.3+k3s1, and Kubernetes before 1.24 is not supported", "ahead of this machine's"} {
		if !strings.Contains(s.text.String(), want) {
			t.Errorf("check does not say %q", want)
		}
	}
}

// A server may send an object unasked. It is not shown.
func TestWhatAServerSendsUnaskedIsNotShown(t *testing.T) {
	const refusal = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`
	server := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"+
			"HTTP/1.1 200 OK\r\nX-Object: canary\r\n\r\n", len(refusal), refusal)
	})
	s := start(t, "check", kubeconfig(t, server.URL, "", ""))
	exit(t, s.Cmd)
	if text := s.text.String(); strings.Contains(text, "canary") || text == "" {
		t.Errorf("it says %s", text)
	}
}
