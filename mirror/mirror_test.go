package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/internal/wait"
	"kubecdc/mirror"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/require"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

func TestMain(m *testing.M) { servers.Main(m) }

var prefixes atomic.Int64

func newConfig(t testing.TB, broker *servers.Kafka) kafka.Config {
	t.Helper()
	return kafka.Config{Brokers: broker.Brokers, TopicPrefix: fmt.Sprintf("m%d-%d", time.Now().UnixNano(), prefixes.Add(1)),
		Cluster: sinktest.Name, ClusterUID: sinktest.UID, Partitions: 3, Version: "v0-test",
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))}
}

// A mirror answers as any log does.
func TestAMirrorIsALog(t *testing.T) { testAMirrorIsALog(t, kafka.ExactlyOnce) }

func TestSlowAMirrorIsALog(t *testing.T) {
	servers.Slow(t)
	testAMirrorIsALog(t, kafka.AtLeastOnce)
}

func testAMirrorIsALog(t *testing.T, delivery string) {
	broker := servers.SharedKafka(t)
	sinktest.RunReaders(t, func(t *testing.T) sinktest.Place {
		cfg := newConfig(t, broker)
		cfg.Delivery = delivery
		connect := func(t *testing.T, cluster, uid string) sinks.Sink {
			own := cfg
			own.Cluster, own.ClusterUID = cluster, uid
			s, err := kafka.New(own)
			must(t, err)
			return s
		}
		return sinktest.Place{ByTopic: true,
			Connect: func(t *testing.T) sinks.Sink { return connect(t, cfg.Cluster, cfg.ClusterUID) },
			Another: connect,
			Remove:  func(t *testing.T, plural string) { removeRecords(t, cfg, cfg.TopicPrefix+"."+plural) },
			Reader: func(t *testing.T, cluster string) sinks.ReadCloser {
				own := cfg
				own.Cluster, own.ClusterUID = cluster, ""
				return newMirrored(t, own)
			}}
	})
}

func removeRecords(t *testing.T, cfg kafka.Config, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...))
	must(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(t.Context(), topic)
	must(t, err)
	_, err = admin.DeleteRecords(t.Context(), ends.Offsets())
	must(t, err)
}

// mirrored is a reader of a mirror that is brought up to date before each question.
type mirrored struct {
	file *sqlite.Reader
	t    *testing.T
	cfg  kafka.Config
	path string
	mu   sync.Mutex
	m    *mirror.Mirror
}

func newMirrored(t *testing.T, cfg kafka.Config) *mirrored {
	r := &mirrored{t: t, cfg: cfg, path: filepath.Join(t.TempDir(), "topics.mirror")}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func openMirror(ctx context.Context, cfg kafka.Config, path string) (*mirror.Mirror, error) {
	topics, err := kafka.OpenReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return mirror.Open(ctx, topics, mirror.Options{Path: path, History: sinks.Forever, Logger: cfg.Logger})
}

func (r *mirrored) open(ctx context.Context) (err error) {
	if r.m, err = openMirror(ctx, r.cfg, r.path); err != nil {
		return err
	}
	file, err := sqlitefile.Share(ctx, r.path)
	if err == nil {
		r.file, err = sqlite.NewReader(ctx, file, r.cfg.Cluster)
	}
	return err
}

// Close stops the mirror, which goes on with the next question.
func (r *mirrored) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m != nil {
		r.m.Close()
		_ = r.file.Close()
		r.m = nil
	}
	return nil
}

func (r *mirrored) update(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		if err := r.open(ctx); err != nil {
			return err
		}
	}
	err := r.m.Update(ctx)
	if errors.Is(err, mirror.ErrAnew) {
		r.m.Close()
		_ = r.file.Close()
		if err = r.open(ctx); err == nil {
			err = r.m.Update(ctx)
		}
	}
	return err
}

func (r *mirrored) FindsObjects() bool { return true }

func (r *mirrored) LogSize(ctx context.Context, now time.Time) (*change.LogSize, error) {
	return r.file.LogSize(ctx, now)
}

func (r *mirrored) Resources(ctx context.Context) ([]string, error) {
	if err := r.update(ctx); err != nil {
		return nil, err
	}
	return r.file.Resources(ctx)
}

func (r *mirrored) CutAt(ctx context.Context, logged time.Time) (cut sinks.Cut, err error) {
	if err := r.update(ctx); err != nil {
		return cut, err
	}
	return r.file.CutAt(ctx, logged)
}

func (r *mirrored) Retained(ctx context.Context, resources []string) (map[string]sinks.Retained, error) {
	if err := r.update(ctx); err != nil {
		return nil, err
	}
	return r.file.Retained(ctx, resources)
}

func (r *mirrored) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	if err := r.update(ctx); err != nil {
		return err
	}
	if q.Follow {
		following, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			for wait.For(following, 50*time.Millisecond) == nil {
				_ = r.update(following)
			}
		}()
	}
	return r.file.Changes(ctx, q, visit)
}

func (r *mirrored) Controls(ctx context.Context, since time.Time, inFull func(*sinks.Span) bool, visit func(*change.Control) error) error {
	if err := r.update(ctx); err != nil {
		return err
	}
	return r.file.Controls(ctx, since, inFull, visit)
}

func (r *mirrored) Audits(ctx context.Context, q audit.Query, visit func(*audit.Record) error) (c audit.Coverage, err error) {
	if err := r.update(ctx); err != nil {
		return c, err
	}
	return r.file.Audits(ctx, q, visit)
}

var must = require.NoError
