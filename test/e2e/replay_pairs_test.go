package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/change/provenance"
	"kubecdc/internal/sqlitefile"
	"kubecdc/replay"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/postgres"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

// pairLog is an empty log of one kind.
type pairLog struct {
	connect func(ctx context.Context) (sinks.Sink, sinks.ReadCloser, error)
	target  func() replay.Target
	prefix  string                      // prefix of the log's topics
	columns func(t *testing.T) []string // returns a sorted row for each change and each object, without columns that a copy has anew
}

var pairKinds = map[string]func(t *testing.T) *pairLog{"kafka": pairTopics, "postgres": pairTables, "sqlite": pairFile}

// A copy of a log has in each column the values that the exporter writes, from each kind of log to each kind. The test overwrites
// the memory of each record after its visit.
func TestAReplayCopiesEveryColumn(t *testing.T) {
	t.Parallel()
	originals := map[string]*pairLog{}
	for name, kind := range pairKinds {
		originals[name] = kind(t)
		originals[name].write(t, pairBatches(t))
	}
	for from, original := range originals {
		for to, like := range originals {
			t.Run(from+" to "+to, func(t *testing.T) {
				copied := pairKinds[to](t)
				copied.replay(t, original)
				got, want := copied.columns(t), like.columns(t)
				if !slices.Equal(got, want) {
					i := 0
					for i < min(len(got), len(want)) && got[i] == want[i] {
						i++
					}
					t.Errorf("the copy has %d rows, want %d; row %d is\n%q, want\n%q", len(got), len(want), i, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
				}
			})
		}
	}
}

// pairBatches returns batches with changes of every kind, like an exporter's.
func pairBatches(t *testing.T) (batches []*change.Batch) {
	deployments := change.NewStream(change.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}, "", "", "")
	happened := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	body := func(name string, n int) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"namespace":"shop","uid":"uid-%[1]s","resourceVersion":"%d",`+
			`"creationTimestamp":"2026-03-01T10:00:00Z","managedFields":[{"manager":"manager-%d","operation":"Update","apiVersion":"apps/v1","time":%q,`+
			`"fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]},"spec":{"replicas":%d,"paused":%t,"text":"é\u0000 \"x\""}}`,
			name, n, n%7, happened.Add(time.Duration(n)*time.Second).Format(time.RFC3339), n, n%3 == 0)
	}
	for seq := range 4 {
		b := &change.Batch{Epoch: 1, Seq: uint64(seq + 1)}
		for n := range 100 {
			rv := 1000*(seq+1) + n
			name := fmt.Sprint("web-", n)
			c := change.Change{Stream: deployments, Op: change.Update, Namespace: "shop", Name: name, UID: "uid-" + name, ResourceVersion: change.VersionOf(uint64(rv)),
				Before: body(name, rv-1000), After: body(name, rv), Time: happened.Add(time.Duration(rv)*time.Second + 7*time.Millisecond)}
			switch {
			case seq == 0 && n%2 == 0:
				c.Op, c.Before = change.Read, nil
			case seq == 0:
				c.Op, c.Before = change.Create, nil
			case n%10 == 1: // the settings leave it out
				c.Before = nil
			case seq == 3 && n%10 == 2:
				c.Op, c.After, c.Inferred, c.Gap = change.Delete, nil, true, "deployments.apps:1"
			case seq == 3 && n%10 == 3:
				c.Op, c.After, c.Before = change.Delete, nil, nil
			case seq == 3 && n%10 == 4:
				c.Op, c.After = change.Delete, nil
			}
			b.Changes = append(b.Changes, c)
		}
		b.Positions = []change.Position{{Stream: deployments.ID(), ResourceVersion: change.VersionOf(uint64(1000*(seq+1) + 99)), Time: happened}}
		batches = append(batches, b)
	}
	for _, b := range batches {
		new(provenance.Reader).ReadAll(b)
	}
	return batches
}

func (l *pairLog) write(t *testing.T, batches []*change.Batch) {
	t.Helper()
	sink, reader, err := l.connect(t.Context())
	must(t, err)
	opened, err := sink.Open(t.Context(), 0, 1, sinks.Durable{New: true})
	must(t, err)
	for _, b := range batches {
		_, err := opened.Log.Write(t.Context(), b)
		must(t, err)
	}
	must(t, opened.Log.Close())
	must(t, sink.Close())
	must(t, reader.Close())
}

func (l *pairLog) replay(t *testing.T, original *pairLog) {
	t.Helper()
	sink, from, err := original.connect(t.Context())
	must(t, err)
	defer from.Close()
	defer sink.Close()
	request := replay.Request{Cluster: "east", From: replay.Asked{Moment: moment.Moment{Start: true}}}
	plan, err := request.Plan(t.Context(), from)
	must(t, err)
	must(t, plan.Count(t.Context(), from, nil))
	for i := range plan.Topics {
		plan.Topics[i].To = change.TopicOf(l.prefix, plan.Topics[i].Stream)
	}
	target := l.target()
	run := &replay.Run{Plan: plan, Log: sinktest.Poisoned(from), Target: target, Envelope: change.Envelope{Cluster: "east", Version: "dev"}}
	must(t, run.Begin(t.Context()))
	must(t, run.Do(t.Context()))
	must(t, target.Close())
}

func pairTables(t *testing.T) *pairLog {
	url := servers.Database(t)
	l := &pairLog{connect: func(ctx context.Context) (sinks.Sink, sinks.ReadCloser, error) {
		sink, err := postgres.Open(ctx, postgres.Config{URL: url, Cluster: "east"})
		if err != nil {
			return nil, nil, err
		}
		reader, err := postgres.OpenReader(ctx, postgres.Config{URL: url, Cluster: "east"})
		return sink, reader, err
	}}
	l.target = func() replay.Target { return &replay.SinkTarget{Place: "tables", Connect: l.connect} }
	l.columns = func(t *testing.T) []string {
		db := servers.Connect(t, url)
		// The texts of before and after are not changed.
		rows, _ := db.Query(t.Context(), `select row_to_json(r)::text from (
			select time, op, api_version, api_group, kind, resource, namespace, name, uid, resource_version, inferred, gap, stream, happened,
				happened_from, managers, fields_changed, before::text, after::text from kubecdc_log.changes) r
			union all select row_to_json(o)::text from (select *, body::text as text from kubecdc_log.objects) o`)
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		slices.Sort(all)
		return all
	}
	return l
}

func pairFile(t *testing.T) *pairLog {
	path := filepath.Join(t.TempDir(), "log.db")
	l := &pairLog{connect: func(ctx context.Context) (sinks.Sink, sinks.ReadCloser, error) {
		file, err := sqlitefile.Own(ctx, path)
		if err != nil {
			return nil, nil, err
		}
		sink, err := sqlite.New(ctx, file, sqlite.Config{Cluster: "east"})
		if err != nil {
			return nil, nil, err
		}
		reader, err := sqlite.NewReader(ctx, file, "east")
		return sink, reader, err
	}}
	l.target = func() replay.Target { return &replay.SinkTarget{Place: path, Connect: l.connect} }
	l.columns = func(t *testing.T) (all []string) {
		sink, reader, err := l.connect(t.Context())
		must(t, err)
		defer reader.Close()
		defer sink.Close()
		must(t, reader.Changes(t.Context(), sinks.Query{}, func(l *sinks.Logged) error {
			c := l.Change
			id := c.Stream.ID()
			c.Stream = nil
			text, err := json.Marshal(c)
			all = append(all, fmt.Sprintf("%s %s before %s after %s", id, text, l.Before, l.After))
			return err
		}))
		slices.Sort(all)
		return all
	}
	return l
}

// sourceName is the prefix of the topics that a record was first written to.
var sourceName = regexp.MustCompile(`"connector":"kubernetes","name":"[^"]*"`)

func pairTopics(t *testing.T) *pairLog {
	brokers := servers.SharedKafka(t).Brokers
	cfg := kafka.Config{Brokers: brokers, TopicPrefix: servers.UniqueName(), Cluster: "east", Partitions: 3}
	l := &pairLog{connect: func(ctx context.Context) (sinks.Sink, sinks.ReadCloser, error) {
		sink, err := kafka.New(cfg)
		if err != nil {
			return nil, nil, err
		}
		reader, err := kafka.OpenReader(ctx, cfg)
		return sink, reader, err
	}}
	l.prefix = cfg.TopicPrefix
	l.target = func() replay.Target {
		target, err := kafka.NewReplay(cfg)
		must(t, err)
		return target
	}
	l.columns = func(t *testing.T) (all []string) {
		AwaitMarkers(t, brokers, cfg.TopicPrefix)
		consume(t, brokers, "", []string{cfg.TopicPrefix + ".deployments.apps"}, func(r *kgo.Record) bool {
			headers := slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == change.HeaderReplay })
			value := sourceName.ReplaceAll(r.Value, nil)
			all = append(all, fmt.Sprintf("%d %s %s %s", r.Partition, r.Key, value, headers))
			return false
		})
		slices.Sort(all)
		return all
	}
	return l
}
