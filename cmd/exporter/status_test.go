package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/export/live"
	"kubecdc/status"
	"kubecdc/test/checkpointtest"
)

// Another part of the test has the file open as its owner, like an exporter. The command reads it with its leases.
func TestStatusReadsTheCheckpointOfARunningExporter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint.db")
	store, err := sqlite.Open(t.Context(), path)
	must(t, err)
	defer store.Close()
	checkpointtest.Bind(t, store, "prod", "uid-1")
	if _, err := store.Slots(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	slot, err := store.Acquire(t.Context(), 0, "kubecdc-0", time.Minute)
	must(t, err)
	must(t, store.RecordSelection(t.Context(), 0, slot.Epoch, []change.StreamID{"pods"}))
	commit := func(batch uint64, gap change.Gap) {
		now := time.Now().UTC()
		err := store.Commit(t.Context(), checkpoint.Commit{Epoch: slot.Epoch, Seq: batch,
			Positions: []change.Position{{Stream: "pods", ResourceVersion: "77", Time: now}},
			Controls:  []change.Control{{Type: change.ControlGap, Stream: "pods", TimeMs: now.UnixMilli(), Gap: &gap}}})
		must(t, err)
	}
	args := []string{"status", "--cluster", "prod", "--checkpoint", "sqlite:" + path}
	commit(1, change.Gap{From: "5", To: "9", Complete: true})
	code, out, errs := exporter(t, args...)
	for _, want := range []string{"prod: ✓ all is well", "kubecdc-0", "pods", "followed", "77", "complete, 0 s ago"} {
		if code != cli.ExitOK || !strings.Contains(out, want) {
			t.Fatalf("exit code %d, want %q: %s%s", code, want, out, errs)
		}
	}
	if !strings.Contains(errs, "--url") {
		t.Errorf("it does not say what it does not know: %s", errs)
	}
	commit(2, change.Gap{From: "77", To: "99", Reason: "etcd was compacted"})
	code, out, errs = exporter(t, append(args, "-o", "json")...)
	var s status.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != cli.ExitFailed || s.Healthy || s.Streams[0].Gap.Complete {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
	if want := "1 wrong: stream pods: changes may be missing between resourceVersions 77 and 99: etcd was compacted"; !strings.Contains(errs, want) {
		t.Errorf("it does not say what is wrong: %s", errs)
	}
}

func TestStatusAsksAnExporter(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte("a-token-of-some-length\n"), 0o600))
	page := status.Handler(func() *status.Status {
		return status.Make(status.Options{Cluster: "prod", Now: time.Now()}, nil, &live.Snapshot{})
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer a-token-of-some-length" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		page.ServeHTTP(w, r)
	}))
	defer server.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "{}") }))
	defer other.Close()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--url", server.URL + "/", "--token-file", token}, cli.ExitOK, "prod: ✓ all is well"},
		{[]string{"--url", server.URL}, cli.ExitFailed, "--token-file names the token"},
		{[]string{"--url", other.URL}, cli.ExitFailed, "is no status of an exporter"},
		{[]string{"--url", "localhost:8080"}, cli.ExitSettings, "http://HOST:PORT"},
		{[]string{"--token-file", token}, cli.ExitSettings, "is for --url"},
		{[]string{"-o", "xml"}, cli.ExitSettings, "-o xml"},
		{[]string{"--url", "localhost:8080", "--watch"}, cli.ExitSettings, "http://HOST:PORT"},
	} {
		code, out, errs := exporter(t, append([]string{"status"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%v: %s", c.args, fmt.Sprint(code, " ", out, errs))
		}
	}
}

// An exporter that restarts must not end a watch of its status. Only the user ends it.
func TestAWatchOfTheStatusOutlastsAFailedRequest(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(status.Make(status.Options{Cluster: "prod", Now: time.Now()}, nil, &live.Snapshot{}))
		stop()
	}))
	defer server.Close()
	var out, errs bytes.Buffer
	code := execute(ctx, []string{"status", "--watch", "--url", server.URL}, &out, &errs)
	if code != cli.ExitOK || asked != 2 || !strings.Contains(errs.String(), "answers 503 Service Unavailable; trying again every 2s") {
		t.Errorf("exit code %d after %d requests: %s%s", code, asked, out.String(), errs.String())
	}
}
