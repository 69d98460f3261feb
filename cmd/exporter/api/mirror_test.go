package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/mirror"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// topics is a log of three records. Each call of Copy waits for what it shall do.
type topics struct {
	sinks.Copier
	copies chan func(visit func([]sinks.Copied, sinks.Cut) error) error
}

func (l *topics) Identity(context.Context) (string, error) { return "topics", nil }
func (l *topics) Beginning(context.Context) (*sinks.Beginning, error) {
	return &sinks.Beginning{}, nil
}
func (l *topics) End(context.Context) (sinks.Cut, error) { return cutAt(3), nil }
func (l *topics) Close() error                           { return nil }
func (l *topics) CopyAudits(_ context.Context, after sinks.Cut, _ func(*audit.Record) error) (sinks.Cut, error) {
	return after, nil
}

func (l *topics) Copy(ctx context.Context, _ sinks.Cut, visit func([]sinks.Copied, sinks.Cut) error) error {
	select {
	case do := <-l.copies:
		return do(visit)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func cutAt(offset int64) sinks.Cut {
	return sinks.Cut{Offsets: change.Offsets{"control": {0: offset}}}
}

// A mirror without a batch refuses questions. It answers with what it has while it fills, and is ready once it has come to the log's
// end. If the topics can't be read later, it remains ready, and says how far behind it is.
func TestAMirrorIsReadyOnceItHasTheLog(t *testing.T) {
	log := &topics{copies: make(chan func(func([]sinks.Copied, sinks.Cut) error) error)}
	m, err := mirror.Open(t.Context(), log, mirror.Options{Path: filepath.Join(t.TempDir(), "m"), History: sinks.Forever,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	defer func() { stop(); <-ended }()
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("answer")) })
	web := httptest.NewServer(whileFilling(m, nil, slog.Default(), answer))
	defer web.Close()
	says := func(path string, code int, text string) {
		t.Helper()
		servers.Await(t, path+" to say "+text, func() (bool, error) {
			r, err := http.Get(web.URL + path)
			if err != nil {
				return false, err
			}
			defer r.Body.Close()
			got, err := io.ReadAll(r.Body)
			return r.StatusCode == code && strings.Contains(string(got), text), err
		})
	}
	says("/healthz", 200, "answer")
	says("/api", 503, "the mirror of the topics fills: it has 0 of 0 records")
	says("/metrics", 200, "kubecdc_mirror_confirmed_timestamp_seconds 0\n")
	gone := errors.New("no broker can be reached")
	log.copies <- func(visit func([]sinks.Copied, sinks.Cut) error) error {
		batch := sinks.Copied{Cluster: "c", Logged: time.UnixMilli(1_700_000_000_000), Batch: change.Batch{Epoch: 1, Seq: 2}}
		return errors.Join(visit([]sinks.Copied{batch}, cutAt(2)), gone)
	}
	says("/readyz", 503, "2 of 3 records")
	says("/api", 200, "answer")
	says("/metrics", 200, "kubecdc_mirror_confirmed_timestamp_seconds 1.7e+09\n")
	log.copies <- func(visit func([]sinks.Copied, sinks.Cut) error) error { return visit(nil, cutAt(3)) }
	says("/readyz", 200, "ok: the mirror has the log up to 0s ago")
	log.copies <- func(func([]sinks.Copied, sinks.Cut) error) error { return gone }
	says("/readyz", 200, "ok: the mirror has the log up to 2s ago")
}
