package compat

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

// The logs. Each is written by an exporter of its own, for the same cluster.
var (
	plain      = topics{Prefix: "kubecdc", Codec: "snappy", State: "as written"}
	compacted  = topics{Prefix: "kubecdc", Codec: "snappy", State: "compacted, with tombstones"}
	forgetful  = topics{Prefix: "lean", Codec: "snappy", State: "compacted, without tombstones"}
	codecLogs  = []topics{{Prefix: "none"}, {Prefix: "gzip"}, {Prefix: "snappy"}, {Prefix: "lz4"}, {Prefix: "zstd"}}
	withSchema = topics{Prefix: "schema", Codec: "snappy", State: "as written"}  // KUBECDC_ENCODING=debezium-schema
	inAvro     = topics{Prefix: "avro", Codec: "snappy", State: "as written"}    // KUBECDC_ENCODING=avro
	asObjects  = topics{Prefix: "objects", Codec: "snappy", State: "as written"} // KUBECDC_ENCODING=object
	resumption = topics{Prefix: "kubecdc", Codec: "snappy", State: "resumed after the compaction"}
)

// long are the logs that are compacted.
var long = []topics{plain, forgetful, withSchema, inAvro, asObjects}

// leaveOut takes out the logs that none of the consumers reads.
func leaveOut(chosen []consumer) {
	long = slices.DeleteFunc(long, func(log topics) bool {
		return log != plain && log != forgetful && !slices.ContainsFunc(chosen, func(c consumer) bool { return c.prefix == log.Prefix })
	})
	if !slices.ContainsFunc(chosen, func(c consumer) bool { return c.codecs }) {
		codecLogs = nil
	}
}

// topics are a log as consumers find it.
type topics struct{ Prefix, Codec, State string }

// reading is one consumer's reading of one log.
type reading struct {
	consumer *consumer
	log      topics
	shipped  bool   // without the packages that the client needs for some codecs
	dir      string // where the consumer may keep what it needs
	resumed  bool   // dir has what an earlier reading left
	want     digest
	deleted  int // how many deleted objects a consumer that skips tombstones must have in addition
	t        *trial
}

// outcome is what came of a reading.
type outcome struct {
	reading
	got  digest
	took time.Duration
	err  error
}

func (o outcome) right() bool { return o.err == nil && o.got == o.want }

// known reports whether the consumer is known to fail there.
func (o outcome) known() bool {
	return o.shipped && o.err != nil || slices.Contains(o.consumer.fails, o.log)
}

// trial is one run of all consumers over the same logs.
type trial struct {
	*stack
	consumers []consumer
	versions  map[string]string
	saved     objects // what the cluster held when consumers were stopped with their state
	mu        sync.Mutex
	outcomes  []outcome
	logs      []logRow
	began     time.Time
}

func newTrial(t *testing.T, chosen []consumer) *trial {
	tr := &trial{consumers: chosen, versions: map[string]string{}, began: time.Now()}
	dir, err := servers.Dir()
	must(t, err)
	for _, c := range chosen {
		say("install %s", c.title)
		tr.versions[c.name], err = c.install(t.Context(), filepath.Join(dir, "compat"))
		must(t, err)
	}
	leaveOut(chosen)
	tr.stack = startStack(t)
	return tr
}

// run writes, has all consumers read, writes and compacts, and has them read again.
func (tr *trial) run(t *testing.T) {
	ctx := t.Context()
	tr.firstPart(t)
	must(t, tr.count(ctx, plain))
	tr.readAll(ctx, plain)
	tr.readAll(ctx, codecLogs...)
	tr.stopExporters(codecLogs)
	tr.resume(ctx, plain)
	tr.saved = tr.live
	tr.secondPart(t)
	for _, log := range []topics{compacted, forgetful} {
		must(t, tr.count(ctx, log))
		tr.readAll(ctx, log)
	}
	tr.resume(ctx, resumption)
}

// writes is how many changes are made before a part of them that are aborted, and after it.
const writes = 600

// firstPart leaves logs with every change, and one for each codec.
func (tr *trial) firstPart(t *testing.T) {
	e2e.InstallWidgets(t, tr.kube.Config)
	tr.writer.As("seed")
	tr.writer.Fill(40)
	tr.writer.Run(writes / 2)
	for _, log := range long {
		tr.export(t, log)
	}
	tr.drift(t)
	tr.churn(t, 1)
	for _, log := range codecLogs {
		log.Codec = log.Prefix
		tr.export(t, log)
	}
	tr.complete(t, append(codecLogs, long...)...)
	for _, log := range append(codecLogs, plain, forgetful) {
		e2e.Judge(t, tr.kube, e2e.ReadLog(t, tr.kafka.Brokers, log.Prefix), log.Prefix, append(kinds, e2e.Widgets)).Demand(t, 0)
	}
}

// secondPart changes much of what the logs have, and compacts them.
func (tr *trial) secondPart(t *testing.T) {
	tr.churn(t, 3)
	tr.complete(t, long...)
	for _, log := range long {
		tombstones := 24 * time.Hour
		if log == forgetful {
			tombstones = 0
		}
		must(t, tr.compact(t.Context(), log, tombstones))
	}
	for _, log := range []topics{compacted, forgetful} {
		w := tr.world(log)
		e2e.WantState(t, w, w.Read(t), kinds...)
	}
}

// churn makes changes by two users, with aborted transactions in between.
func (tr *trial) churn(t *testing.T, part int) {
	for _, user := range []int{part, part + 1} {
		say("changes, part %d", user)
		tr.writer.As(fmt.Sprint("part-", user))
		tr.writer.Run(writes)
		if user == part {
			must(t, tr.abort(t.Context()))
		}
	}
}

// readAll has each consumer read logs from their start.
func (t *trial) readAll(ctx context.Context, logs ...topics) {
	var readings []reading
	for _, log := range logs {
		shipped := log.State == ""
		for i := range t.consumers {
			c := &t.consumers[i]
			if (c.prefix != "" || c.few) && log == forgetful || shipped && !c.codecs {
				continue
			}
			dir := filepath.Join(t.dir, plainName.Replace(c.name+"_"+log.Prefix+"_"+log.State))
			readings = append(readings, reading{consumer: c, log: log, shipped: shipped, dir: dir})
		}
	}
	t.readTogether(ctx, readings)
}

// plainName makes a folder's name that everybody takes: in Kafka Connect's plugin.path a comma would separate two.
var plainName = strings.NewReplacer(" ", "_", ",", "", "-", "_")

// resume has those consumers read that keep a state: once to begin it, and once to go on from it.
func (t *trial) resume(ctx context.Context, log topics) {
	var readings []reading
	for i := range t.consumers {
		if c := &t.consumers[i]; c.resumes {
			readings = append(readings, reading{consumer: c, log: log, dir: filepath.Join(t.dir, c.name), resumed: true})
		}
	}
	t.readTogether(ctx, readings)
}

// readTogether has four programs read at a time: most of a short reading is the start of a program.
func (t *trial) readTogether(ctx context.Context, readings []reading) {
	var group errgroup.Group
	group.SetLimit(4)
	for _, r := range readings {
		group.Go(func() error {
			t.read(ctx, r)
			return nil
		})
	}
	_ = group.Wait()
}

func (t *trial) read(ctx context.Context, r reading) {
	known := t.live
	if r.consumer.skips && r.log == resumption {
		known, r.deleted = t.withDeleted()
	}
	r.t, r.want = t, digestOf(r.consumer.expect(known))
	if r.consumer.prefix != "" {
		r.log.Prefix = r.consumer.prefix
	}
	began := time.Now()
	patient := servers.Patient
	if slices.Contains(r.consumer.fails, r.log) {
		patient = func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 90*time.Second)
		}
	}
	limited, cancel := patient(ctx)
	defer cancel()
	err := os.MkdirAll(r.dir, 0o755)
	var rows []row
	if err == nil {
		rows, err = r.consumer.read(limited, r)
	}
	o := outcome{reading: r, got: digestOf(rows), took: time.Since(began), err: err}
	if ctx.Err() != nil {
		return // the user has ended the trial
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes = append(t.outcomes, o)
	say("%-28s %-10s %-30s %s", r.consumer.title, r.log.Prefix, r.log.State, o)
}

// withDeleted returns the present objects with the pods that were deleted since the consumers were stopped, as they were then. n is the
// number of these pods.
func (t *trial) withDeleted() (all objects, deleted int) {
	alive := map[string]bool{}
	for _, pod := range t.live[pods] {
		alive[fmt.Sprint(keyOf(pod))] = true
	}
	all = maps.Clone(t.live)
	for _, pod := range t.saved[pods] {
		if !alive[fmt.Sprint(keyOf(pod))] {
			all[pods] = append(slices.Clip(all[pods]), pod)
			deleted++
		}
	}
	return all, deleted
}

func (o outcome) String() string {
	switch {
	case o.err != nil:
		return "failed: " + firstLine(o.err.Error())
	case o.got != o.want:
		return fmt.Sprintf("WRONG: %s, the cluster has %s", o.got, o.want)
	}
	text := fmt.Sprintf("%s in %.1f s", o.got, o.took.Seconds())
	if o.deleted > 0 {
		text += fmt.Sprintf(", with %d deleted", o.deleted)
	}
	return text
}

// verdict is an error if a consumer has read anything wrong, or is known to and has not. A consumer that can't read a codec as shipped
// is no failure.
func (t *trial) verdict() (err error) {
	for _, o := range t.outcomes {
		if o.right() == o.known() {
			err = errors.Join(err, fmt.Errorf("%s, topics %s.*, %s: %s", o.consumer.title, o.log.Prefix, o.log.State, o))
		}
	}
	return err
}

func say(format string, args ...any) { fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...) }
