package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

// Chaos breaks a world while a writer makes changes, one fault after another, all chosen by a seed. Two replicas run all the time.
// Each is started again when it ends, as by a Deployment.
type Chaos struct {
	t        testing.TB
	world    *World
	random   *rand.Rand
	replicas [2]*replica
	proxies  map[string]*servers.Proxy
	admin    *kadm.Client        // nil if the log is in Postgres
	other    *servers.Kubernetes // another cluster
	unequal  *servers.APIServer  // serves the world's cluster, without one of its resources
	Faults   map[string]int
	reached  int64  // the cluster's revision that all streams had reached after the last fault
	Lossy    []Kind // kinds whose topics were created again, or have lost their end
}

// replica keeps one exporter running.
type replica struct {
	mu      sync.Mutex
	t       testing.TB
	name    string
	env     map[string]string
	current *Exporter
	codes   map[int]int // exit codes seen, and how often
	wrote   int         // sessions that had the slot, and have ended
	stop    bool
	done    chan struct{}
}

// NewChaos puts proxies between the exporters and every server, and starts two replicas.
func NewChaos(t testing.TB, w *World, seed uint64, settings ...string) *Chaos {
	t.Helper()
	c := &Chaos{t: t, world: w, random: rand.New(rand.NewPCG(seed, 3)), Faults: map[string]int{}}
	c.startOthers()
	var env map[string]string
	c.proxies, env = w.Proxied(t)
	if w.Kafka != nil {
		client, err := kgo.NewClient(kgo.SeedBrokers(w.Kafka.Brokers...))
		must(t, err)
		t.Cleanup(client.Close)
		c.admin = kadm.NewClient(client)
	}
	env = withSettings(env, "KUBECDC_LEASE_DURATION", chaosLease.String(), "KUBECDC_KAFKA_TRANSACTION_TIMEOUT", chaosTransaction.String())
	env = withSettings(env, settings...)
	for i := range c.replicas {
		c.replicas[i] = startReplica(t, fmt.Sprintf("replica-%d", i), env)
	}
	t.Cleanup(c.Stop)
	return c
}

func startReplica(t testing.TB, name string, env map[string]string) *replica {
	r := &replica{t: t, name: name, env: env, codes: map[int]int{}, done: make(chan struct{})}
	r.current = StartExporter(t, name, env)
	go r.keep()
	return r
}

// keep starts the exporter again whenever it ends.
func (r *replica) keep() {
	defer close(r.done)
	for {
		r.mu.Lock()
		e := r.current
		r.mu.Unlock()
		<-e.Done()
		r.mu.Lock()
		r.codes[e.Cmd.ProcessState.ExitCode()]++
		r.wrote += strings.Count(string(e.log.Bytes()), "slot acquired")
		if r.stop {
			r.mu.Unlock()
			return
		}
		r.current = StartExporter(r.t, r.name, r.env)
		r.mu.Unlock()
	}
}

// restartWith kills the exporter and starts it once with one more setting.
func (r *replica) restartWith(key, value string) *Exporter {
	r.mu.Lock()
	r.env = withSettings(r.env, key, value)
	e := r.current
	r.mu.Unlock()
	e.Kill()
	var next *Exporter
	Await(r.t, "the next process", func() (bool, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		next = r.current
		return next != e, nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.env, key)
	return next
}

func (r *replica) exporter() *Exporter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Stop ends the replicas.
func (c *Chaos) Stop() {
	for _, r := range c.replicas {
		r.end()
	}
}

func (r *replica) end() {
	r.mu.Lock()
	r.stop = true
	r.mu.Unlock()
	r.exporter().Signal(syscall.SIGCONT)
	r.exporter().Kill()
	<-r.done
}

// ExitCodes counts the exit codes of the processes.
func (c *Chaos) ExitCodes() map[int]int {
	all := map[int]int{}
	for _, r := range c.replicas {
		r.mu.Lock()
		for code, n := range r.codes {
			all[code] += n
		}
		r.mu.Unlock()
	}
	return all
}

// Wrote returns the number of sessions that had the slot. Call it after Stop.
func (c *Chaos) Wrote() (sessions int) {
	for _, r := range c.replicas {
		sessions += r.wrote
	}
	return sessions
}

// faults are all possible faults. Each breaks something, and mends it.
var faults = map[string]func(*Chaos){
	"kill -9 an exporter": func(c *Chaos) { c.any().Kill() },
	"SIGSTOP an exporter": (*Chaos).suspend,
	"kill -9 the broker":  func(c *Chaos) { c.world.Kafka.Kill(); must(c.t, c.world.Kafka.Start(context.Background())) },
	"kill -9 Postgres":    func(c *Chaos) { kill(c.t, c.world.Checkpoint) },
	"kill -9 the API server": func(c *Chaos) {
		c.world.Kube.KillAPIServer()
		must(c.t, c.world.Kube.StartAPIServer(context.Background()))
	},
	"cut a connection":     func(c *Chaos) { c.disturb((*servers.Proxy).Cut) },
	"drop connections":     func(c *Chaos) { c.proxy().Drop() },
	"freeze a connection":  func(c *Chaos) { c.disturb((*servers.Proxy).Freeze) },
	"slow a connection":    func(c *Chaos) { c.disturb(func(p *servers.Proxy) { p.Slow(20_000) }) },
	"kill -9 at failpoint": (*Chaos).failpoint,

	"Kafka away for longer than its timeouts":       func(c *Chaos) { c.outlast("kafka", outlasting) },
	"the checkpoint away for longer than leases":    func(c *Chaos) { c.outlast("postgres", 3*chaosLease) },
	"an exporter paused for longer than timeouts":   func(c *Chaos) { c.pause(c.any()) },
	"all exporters paused for longer than timeouts": func(c *Chaos) { c.pause(c.replicas[0].exporter(), c.replicas[1].exporter()) },
	"the checkpoint is lost":                        (*Chaos).loseCheckpoint,
	"the address of another cluster":                func(c *Chaos) { c.leadTo(c.other.Address) },
	"an API server lacks a resource":                func(c *Chaos) { c.leadTo(c.unequal.Address) },
	"a topic is deleted and made again":             (*Chaos).remakeTopic,
	"the log loses its end":                         (*Chaos).loseEnd,

	"the sink away for longer than etcd's history": (*Chaos).outlastHistory,

	"kill -9 the sink's Postgres":                func(c *Chaos) { kill(c.t, c.world.Postgres) },
	"the sink away for longer than its timeouts": func(c *Chaos) { c.outlast("sink", outlasting) },
	"a failover to a standby behind":             (*Chaos).failOver,
}

// kill kills a server and starts it again.
func kill(t testing.TB, server *servers.Postgres) {
	server.Kill()
	must(t, server.Start(context.Background()))
}

// logs has the faults of only one kind of log: Kafka or Postgres.
var logs = map[string]string{"kill -9 the broker": "kafka", "Kafka away for longer than its timeouts": "kafka", "a topic is deleted and made again": "kafka",
	"the log loses its end": "kafka", "kill -9 the sink's Postgres": "sink", "the sink away for longer than its timeouts": "sink",
	"a failover to a standby behind": "sink"}

// can reports whether a fault is possible in this world.
func (c *Chaos) can(fault string) bool {
	return logs[fault] == "" || c.proxies[logs[fault]] != nil
}

const (
	chaosLease = time.Second
	// chaosTransaction is how long Kafka lets a transaction be open.
	chaosTransaction = 3 * time.Second
	// outlasting is longer than a lease, a transaction, and a watch. A watch lasts for the watermark interval and two seconds.
	outlasting = 5 * time.Second
)

// long are the faults that outlast every timeout, and those that lead to another server. A run of more faults begins with one of
// each.
var long = []string{"the sink away for longer than etcd's history", "Kafka away for longer than its timeouts", "the sink away for longer than its timeouts", "the log loses its end",
	"a failover to a standby behind", "the checkpoint away for longer than leases",
	"an exporter paused for longer than timeouts", "all exporters paused for longer than timeouts", "the checkpoint is lost", "the address of another cluster",
	"an API server lacks a resource"}

// weights make the slow faults less frequent.
var weights = []struct {
	name   string
	weight int
}{
	{"kill -9 an exporter", 5}, {"SIGSTOP an exporter", 4}, {"kill -9 the broker", 2}, {"kill -9 Postgres", 3}, {"kill -9 the API server", 2},
	{"cut a connection", 4}, {"drop connections", 5}, {"freeze a connection", 3}, {"slow a connection", 3}, {"kill -9 at failpoint", 8},
	{"Kafka away for longer than its timeouts", 1}, {"the checkpoint away for longer than leases", 1}, {"an exporter paused for longer than timeouts", 1},
	{"all exporters paused for longer than timeouts", 1}, {"the checkpoint is lost", 1}, {"the address of another cluster", 4},
	{"an API server lacks a resource", 3}, {"a topic is deleted and made again", 2}, {"the log loses its end", 4},
	{"the sink away for longer than etcd's history", 2},
	{"kill -9 the sink's Postgres", 3}, {"the sink away for longer than its timeouts", 1}, {"a failover to a standby behind", 6},
}

// Fault makes one fault, chosen by the seed, and waits until the exporters make progress again.
func (c *Chaos) Fault() {
	total := 0
	for _, w := range weights {
		if c.can(w.name) {
			total += w.weight
		}
	}
	n := c.random.IntN(total)
	for _, w := range weights {
		if !c.can(w.name) {
			continue
		}
		if n -= w.weight; n < 0 {
			c.do(w.name)
			return
		}
	}
}

// Long makes one of each of the long faults, and returns their number.
func (c *Chaos) Long() (n int) {
	for _, name := range long {
		if c.can(name) {
			c.do(name)
			n++
		}
	}
	return n
}

func (c *Chaos) do(name string) {
	c.Faults[name]++
	faults[name](c)
	c.awaitProgress(name)
	c.wait(100 + c.random.IntN(400))
}

// wait lets the exporters work undisturbed for some milliseconds, so that faults strike at random moments.
func (c *Chaos) wait(ms int) { time.Sleep(time.Duration(ms) * time.Millisecond) }

func (c *Chaos) any() *Exporter { return c.replicas[c.random.IntN(len(c.replicas))].exporter() }

func (c *Chaos) proxy() *servers.Proxy {
	names := slices.Sorted(maps.Keys(c.proxies))
	return c.proxies[names[c.random.IntN(len(names))]]
}

// suspend stops a process for longer than its lease, so that it wakes up as one of two that take themselves for the owner.
func (c *Chaos) suspend() {
	e := c.any()
	e.Signal(syscall.SIGSTOP)
	c.wait(800 + c.random.IntN(2000))
	e.Signal(syscall.SIGCONT)
}

// outlastHistory cuts the sink off until a spool has changes that etcd then forgets. A slot that is just being opened has no spool.
func (c *Chaos) outlastHistory() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p := cmp.Or(c.proxies["kafka"], c.proxies["sink"])
	p.Cut()
	forgotten, err := c.world.Kube.Revision(context.Background())
	must(c.t, err)
	want := versions(forgotten)
	err = servers.Until(ctx, "a replica to have read what etcd is to forget", func() (bool, error) {
		for _, r := range c.replicas {
			if read, err := r.exporter().hasRead(want); read || err != nil {
				return read, err
			}
		}
		return false, nil
	})
	if err == nil {
		must(c.t, c.world.Kube.Compact(context.Background(), forgotten))
		c.Faults["  the sink away, and etcd compacted"]++
	}
	must(c.t, p.Restore())
}

// outlast cuts a server off, or makes it silent, for some time.
func (c *Chaos) outlast(server string, d time.Duration) {
	p := c.proxies[server]
	if c.random.IntN(2) == 0 {
		p.Cut()
	} else {
		p.Freeze()
	}
	c.wait(int(d.Milliseconds()) + c.random.IntN(1000))
	must(c.t, p.Restore())
}

// pause suspends processes for longer than every timeout, and wakes them at once.
func (c *Chaos) pause(exporters ...*Exporter) {
	for _, e := range exporters {
		e.Signal(syscall.SIGSTOP)
	}
	c.wait(int(outlasting.Milliseconds()) + c.random.IntN(1000))
	for _, e := range exporters {
		e.Signal(syscall.SIGCONT)
	}
}

// loseCheckpoint drops all of the checkpoint, and starts the exporters anew.
func (c *Chaos) loseCheckpoint() {
	c.dropCheckpoint()
	for _, r := range c.replicas {
		r.exporter().Kill()
	}
}

// remakeTopic deletes a kind's topic and creates it again, with as many partitions or more.
func (c *Chaos) remakeTopic() {
	kind := Kinds[c.random.IntN(len(Kinds))]
	c.Lossy = append(c.Lossy, kind)
	remakeTopic(c.t, c.admin, c.world.Prefix+"."+kind.ID(), 3+c.random.Int32N(3))
}

// remakeTopic deletes a topic and creates it again, unless the exporter is quicker.
func remakeTopic(t testing.TB, admin *kadm.Client, name string, partitions int32) {
	t.Helper()
	answers, err := admin.DeleteTopics(context.Background(), name)
	must(t, err)
	if err := answers.Error(); !errors.Is(err, kerr.UnknownTopicOrPartition) { // a request that is sent again finds it deleted
		must(t, err)
	}
	Await(t, name+" to be made again", func() (bool, error) {
		answer, err := admin.CreateTopic(context.Background(), partitions, 1, nil, name)
		return answer.Err == nil && err == nil || errors.Is(err, kerr.TopicAlreadyExists), err
	})
}

// loseEnd cuts off the end of a partition, like an unclean election.
func (c *Chaos) loseEnd() {
	kind := Kinds[c.random.IntN(len(Kinds))]
	c.world.Kafka.Kill()
	cut, err := c.world.Kafka.CutLast(fmt.Sprintf("%s.%s-%d", c.world.Prefix, kind.ID(), c.random.IntN(3)), 1+c.random.IntN(8))
	must(c.t, err)
	must(c.t, c.world.Kafka.Start(context.Background()))
	if c.Faults["  committed writes cut off"] += cut; cut > 0 {
		c.Lossy = append(c.Lossy, kind)
	}
}

// failOver leads the sink to a standby that was behind, while the exporters write or are quiet. The standby's missing records are
// written again, so no loss is excused.
func (c *Chaos) failOver() {
	old, ctx := c.world.Postgres, context.Background()
	standby, err := old.Standby(ctx)
	must(c.t, err)
	c.t.Cleanup(func() { _ = standby.Stop() })
	standby.Upstream.Cut()
	written := func() int { return len(ReadTables(c.t, old.URL, c.world.Prefix).Records) }
	had := written()
	c.wait(500 + c.random.IntN(3000))
	if c.Faults["  records that the standby lacked"] == 0 {
		Await(c.t, "records that the standby lacks", func() (bool, error) { return written() > had, nil })
	}
	must(c.t, standby.Promote(ctx))
	c.proxies["sink"].Retarget(standby.Address)
	c.proxies["sink"].Drop()
	c.Faults["  records that the standby lacked"] += written()
	c.Faults["  records that the standby lacked"] -= len(ReadTables(c.t, standby.URL, c.world.Prefix).Records)
	c.world.Postgres = standby
	must(c.t, old.Stop())
}

// dropCheckpoint drops all of the checkpoint, and leaves the exporters suspended. An exporter that was suspended in a transaction
// would hold its locks for ever, so their sessions are ended.
func (c *Chaos) dropCheckpoint() {
	for _, r := range c.replicas {
		r.exporter().Signal(syscall.SIGSTOP)
	}
	servers.Exec(c.t, c.world.Checkpoint.URL,
		`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'kubecdc'; drop schema kubecdc cascade`)
}

// startOthers starts the other servers to which the address of the API server may lead. One is another cluster, which has objects
// of the same names and none of the custom resources. Its revisions are ahead at first and fall behind later. The other is an API
// server of the same cluster that lacks a built-in resource, as during an upgrade.
func (c *Chaos) startOthers() {
	c.other = c.world.anotherCluster(c.t)
	w := NewWriter(c.t, c.other.Config, c.random.Uint64(), []Kind{ConfigMaps, Secrets, Deployments, Roles})
	w.Run(100)
	w.overtake(c.world.Kube, c.other)
	var err error
	c.unequal, err = c.world.Kube.AddAPIServer(context.Background(), "--runtime-config=apps/v1=false")
	must(c.t, err)
	must(c.t, c.world.Kube.RestartAPIServer(context.Background())) // registers again the APIs that the other server has unregistered
}

// leadTo leads the address of the API server to another one for some time.
func (c *Chaos) leadTo(address string) {
	p := c.proxies["api"]
	p.Retarget(address)
	p.Drop()
	c.wait(200 + c.random.IntN(3000))
	if address == c.other.Address && c.ExitCodes()[2] == 0 {
		Await(c.t, "a process to end since its address leads to another cluster", func() (bool, error) { return c.ExitCodes()[2] > 0, nil })
	}
	p.Retarget(c.world.Kube.Address)
	p.Drop()
}

func (c *Chaos) disturb(how func(*servers.Proxy)) {
	p := c.proxy()
	how(p)
	c.wait(200 + c.random.IntN(2500))
	must(c.t, p.Restore())
}

// failpoint makes one process die at a step that follows from the seed. The process may also never reach the step.
func (c *Chaos) failpoint() {
	step := failpoint.All[c.random.IntN(len(failpoint.All))]
	c.crossFailpoint(step, 1+c.random.IntN(3), 3*time.Second)
}

// crossFailpoint starts one replica with the failpoint and kills the other, so that the first one gets the slot if it is quick. It
// reports whether the process died there.
func (c *Chaos) crossFailpoint(step string, n int, limit time.Duration) bool {
	i := c.random.IntN(len(c.replicas))
	first, second := c.replicas[i], c.replicas[1-i]
	if step == failpoint.RollingForward { // only the successor of a process that died after writing rolls forward
		dying := first.restartWith("KUBECDC_FAILPOINT", failpoint.Written+":1")
		next := second.restartWith("KUBECDC_FAILPOINT", step+":1")
		return c.died(dying, failpoint.Written, limit) && c.died(next, step, limit)
	}
	if step == failpoint.Rebuilding || step == failpoint.Rebuilt { // only a process that finds no checkpoint rebuilds one
		c.dropCheckpoint()
		died := c.died(first.restartWith("KUBECDC_FAILPOINT", step+":1"), step, limit)
		second.exporter().Kill()
		return died
	}
	e := first.restartWith("KUBECDC_FAILPOINT", fmt.Sprintf("%s:%d", step, n))
	second.exporter().Kill()
	return c.died(e, step, limit)
}

func (c *Chaos) died(e *Exporter, step string, limit time.Duration) bool {
	select {
	case <-e.Done():
		c.Faults["  "+step]++
		return true
	case <-time.After(limit):
		e.Kill()
		return false
	}
}

// awaitProgress waits until the exporters have reached the cluster's revision after a fault. Then it compacts etcd up to the
// revision that they had reached after the previous fault. So a position that does not move is lost. A slow machine may take any
// time for a fault.
func (c *Chaos) awaitProgress(after string) {
	reached := c.world.awaitCurrent(c.t, after, c.positions)
	if c.reached > 0 && reached > c.reached {
		must(c.t, c.world.Kube.Compact(context.Background(), c.reached))
	}
	c.reached = reached
}

// awaitCurrent waits until every stream has reached the cluster's revision after a fault. The writer changes each kind all the
// time.
func (w *World) awaitCurrent(t testing.TB, after string, positions func() map[change.StreamID]change.ResourceVersion) (revision int64) {
	t.Helper()
	revision, err := w.Kube.Revision(context.Background())
	must(t, err)
	var behind []string
	defer func() {
		if t.Failed() {
			t.Logf("not at revision %d: %s", revision, behind)
		}
	}()
	Await(t, "all streams to be current after "+after, func() (bool, error) {
		current := positions()
		behind = nil
		for _, kind := range Kinds {
			if current[kind.Stream()].Compare(change.VersionOf(uint64(revision))) < 0 {
				behind = append(behind, fmt.Sprintf("%s@%s", kind.ID(), current[kind.Stream()]))
			}
		}
		return len(behind) == 0, nil
	})
	return revision
}

// positions returns the checkpoint's positions, which follow the log, or none while it can't be read.
func (c *Chaos) positions() map[change.StreamID]change.ResourceVersion {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	found := map[change.StreamID]change.ResourceVersion{}
	conn, err := pgx.Connect(ctx, c.world.Checkpoint.URL)
	if err != nil {
		return found
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `select name, resource_version from kubecdc.positions join kubecdc.streams on id = stream`)
	if err != nil {
		return found
	}
	var stream change.StreamID
	var version change.ResourceVersion
	if _, err = pgx.ForEachRow(rows, []any{&stream, &version}, func() error { found[stream] = version; return nil }); err != nil {
		clear(found)
	}
	return found
}
