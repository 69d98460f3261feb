package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/postgres"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/kafkatopics"
	"kubecdc/test/servers"
)

// Canary is a text that must not come out in any form.
type Canary string

// Base64 returns the canary as the data of a Secret has it. Its length needs no padding.
func (c Canary) Base64() string { return base64.StdEncoding.EncodeToString([]byte(c)) }

// In reports whether the canary is in a text.
func (c Canary) In(b []byte) bool {
	for _, form := range []string{string(c), c.Base64(), hex.EncodeToString([]byte(c)), hex.EncodeToString([]byte(c.Base64()))} {
		if bytes.Contains(b, []byte(form)) {
			return true
		}
	}
	return false
}

// Demand fails the test if the canary is in a text where it must not be, or is not where it must be.
func (c Canary) Demand(t testing.TB, where string, want bool, b []byte) {
	t.Helper()
	if c.In(b) != want {
		t.Errorf("the canary is in %s: %v, want %v", where, !want, want)
	}
}

// Topics returns all records of a prefix after the offsets, aborted ones too: keys, values and headers. It joins the parts of dead
// letters.
func Topics(t testing.TB, brokers []string, prefix string, after kadm.ListedOffsets) (all []byte, end kadm.ListedOffsets) {
	t.Helper()
	letters := map[string][]byte{}
	what := kafkatopics.Reading{Brokers: brokers, Wanted: kafkatopics.Under(prefix), Uncommitted: true, After: after}
	end = ReadRecords(t, what, func(r *kgo.Record) error {
		all = append(append(append(all, r.Key...), r.Value...), '\n')
		for _, h := range r.Headers {
			all = append(append(all, h.Value...), '\n')
		}
		letters[fmt.Sprint(r.Topic, r.Partition)] = append(letters[fmt.Sprint(r.Topic, r.Partition)], r.Value...)
		return nil
	})
	for _, parts := range letters {
		all = append(all, parts...)
	}
	return all, end
}

// Tables returns every table of a Postgres database as text.
func Tables(t testing.TB, url string) (all []byte) {
	t.Helper()
	ctx := context.Background()
	conn := servers.Connect(t, url)
	rows, err := conn.Query(ctx, `select format('%I.%I', schemaname, tablename) from pg_tables where schemaname like 'kubecdc%'`)
	must(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	for _, name := range names {
		rows, err := conn.Query(ctx, `select t::text from `+name+` t`)
		must(t, err)
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		all = append(append(all, strings.Join(texts, "\n")...), '\n')
	}
	return all
}

// Bodies returns a stream's bodies in a Postgres checkpoint, unpacked.
func Bodies(t testing.TB, url, cluster, uid string, stream change.StreamID) []byte {
	t.Helper()
	store, err := postgres.Open(context.Background(), postgres.Config{URL: url})
	must(t, err)
	defer store.Close()
	return bodiesOf(t, store, cluster, uid, stream)
}

// FileBodies returns a stream's bodies in a checkpoint file, which no process may have open.
func FileBodies(t testing.TB, path, cluster, uid string, stream change.StreamID) []byte {
	t.Helper()
	store, err := sqlite.Open(context.Background(), path)
	must(t, err)
	defer store.Close()
	return bodiesOf(t, store, cluster, uid, stream)
}

func bodiesOf(t testing.TB, store checkpoint.Store, cluster, uid string, stream change.StreamID) (all []byte) {
	t.Helper()
	ctx := context.Background()
	checkpointtest.Bind(t, store, cluster, uid)
	var keys []string
	must(t, store.Inventory(ctx, stream, func(o checkpoint.Object) error { keys = append(keys, o.Key); return nil }))
	for _, body := range checkpointtest.Bodies(t, store, stream, keys...) {
		all = append(append(all, body...), '\n')
	}
	return all
}

// Files returns the contents of a file, and of all files whose names begin with its name.
func Files(t testing.TB, path string) (all []byte) {
	t.Helper()
	names, err := filepath.Glob(path + "*")
	must(t, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		must(t, err)
		all = append(all, b...)
	}
	return all
}

// Said returns everything that a process shows: log, output, health and metrics.
func (e *Exporter) Said(t testing.TB) []byte {
	t.Helper()
	all := append(e.log.Bytes(), e.out.Bytes()...)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/", "/status.json"} {
		resp, err := http.Get("http://" + e.Listen + path)
		if err != nil {
			continue // it has ended
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		must(t, err)
		all = append(all, b...)
	}
	return all
}
