package reflector_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/reflector"
)

// modelStream is a stream of a model, over all of its sessions.
type modelStream struct {
	t        *testing.T
	resource string
	config   *rest.Config
	options  reflector.Options
	log      *ledger
	stop     func() error
	sessions []int // how many control records the log had at the start of each

	selector   string
	readsAgain bool // recoveries hold few bodies, and reads fail
}

func (s *modelStream) start() {
	r := change.Resource{Version: "v1", Plural: s.resource, Kind: "ConfigMap", Namespaced: true}
	s.sessions = append(s.sessions, len(s.log.controls))
	running, stop := startStream(s.t, s.config, change.NewStream(r, "", s.selector, ""), s.options, s.log, &quietObserver{})
	s.log.mu.Lock()
	s.log.interrupt = func() { // the server prefers another version of the resource
		version := "v2"
		if r.Version == version {
			version = "v1"
		}
		r.Version = version
		wanted := r
		running.SetResource(&wanted)
	}
	s.log.mu.Unlock()
	if s.stop = stop; s.options.Restores != nil {
		s.options.Restores.(*restores).join(running)
	}
}

func (s *modelStream) restart() {
	_ = s.stop()
	s.start()
}

// crashIn makes the log fail at one of its next items.
func (s *modelStream) crashIn(items int) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.failAt = s.log.sent + items
}

// interruptIn ends the step that sends one of the next items, or asks one of the next requests.
func (s *modelStream) interruptIn(m *modelServer, n int) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.interrupt = func() {
		s.log.mu.Lock()
		defer s.log.mu.Unlock()
		s.log.interrupt()
	}
	if m.random.IntN(3) == 0 {
		m.interruptIn = n
	} else {
		s.log.interruptAt = s.log.sent + n
	}
}

// stallIn makes the log take long for one of the next items.
func (s *modelStream) stallIn(items int, long time.Duration) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.stallAt, s.log.stallFor = s.log.sent+items, long
}

// crashed reports whether the log has failed.
func (s *modelStream) crashed() bool {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.failed
}

// settle lets time pass until the log has the server's state. A crashed stream starts again.
func (s *modelStream) settle(m *modelServer) bool {
	for range 6000 {
		time.Sleep(time.Second)
		synctest.Wait()
		if s.crashed() {
			s.restart()
			continue
		}
		s.log.mu.Lock()
		position, have := s.log.position, maps.Clone(s.log.objects)
		s.log.mu.Unlock()
		m.mu.Lock()
		now, live := m.now, m.writesAt(s.resource, m.now)
		m.mu.Unlock()
		want := map[string][2]string{}
		for _, o := range live {
			want["default/"+o.name] = [2]string{o.uid, strconv.FormatUint(o.revision, 10)}
		}
		if maps.Equal(have, want) && position == change.VersionOf(now) {
			return true
		}
	}
	return false
}

// judge compares the log of a stream with the server's history, which was never restored. What the log says happened, in that order and
// once. What the log lacks is in a gap whose record says that changes may be missing. In such a gap the log may have an object's
// creation later than it was. A crash between two batches may leave an inferred deletion outside every gap. The log then lacks the
// object's last updates and the time of its deletion.
func (s *modelStream) judge(m *modelServer) {
	changes, controls := s.log.snapshot()
	i := slices.IndexFunc(controls, func(c change.Control) bool { return c.Type == change.ControlSnapshotEnd })
	if i < 0 {
		s.t.Fatal("the first list has no end")
	}
	first := controls[i].ResourceVersion
	incomplete := func(version change.ResourceVersion) bool {
		return version.Compare(first) <= 0 || slices.ContainsFunc(gaps(controls), func(g change.Gap) bool {
			return !g.Complete && version.Compare(g.From) > 0 && version.Compare(g.To) <= 0
		})
	}
	ends := map[string]string{} // by deletions at the object's last version: the deletion that happened
	for _, w := range m.writes {
		if last := m.before(w); m.stale && w.op == "d" && w.resource == s.resource {
			ends[logged("d", "default/"+w.name, strconv.FormatUint(last.revision, 10))] = logged("d", "default/"+w.name, strconv.FormatUint(w.revision, 10))
		}
	}
	gone := map[string]bool{} // uids whose deletion was inferred otherwise
	for _, c := range changes {
		_, known := ends[logged("d", c.Key(), string(c.ResourceVersion))]
		gone[c.UID] = gone[c.UID] || c.Inferred && c.Op == change.Delete && !known
	}
	truth := map[string]modelWrite{}
	for _, w := range m.writes {
		if w.resource == s.resource {
			truth[logged(w.op, "default/"+w.name, strconv.FormatUint(w.revision, 10))] = w
		}
	}
	for i, from := range s.sessions {
		to := len(controls)
		if i+1 < len(s.sessions) {
			to = s.sessions[i+1]
		}
		s.judgeControls(controls[from:to])
	}
	recorded, newest := map[string]bool{}, map[string]change.ResourceVersion{}
	for _, c := range changes {
		line := logged(c.Op.String(), c.Key(), string(c.ResourceVersion))
		_, happened := truth[line]
		if _, updated := truth["u"+line[1:]]; c.Op == change.Create && updated && (gone[c.UID] || incomplete(c.ResourceVersion)) {
			happened = true
		}
		if _, back := truth["c"+line[1:]]; m.selects && c.Op == change.Update && back && incomplete(c.ResourceVersion) { // it had left
			happened = true
		}
		if !c.Inferred && c.Op != change.Read && (!happened || recorded[line]) {
			s.t.Errorf("the log says %q: it never happened, or is there twice", line)
		}
		if c.ResourceVersion.Compare(newest[c.Key()]) < 0 || c.Op != change.Delete && c.ResourceVersion == newest[c.Key()] {
			s.t.Errorf("the log says %q after %s", line, newest[c.Key()])
		}
		if c.Inferred && c.Op == change.Delete {
			recorded[ends[line]] = true
		}
		recorded[line], newest[c.Key()] = true, c.ResourceVersion
	}
	for line, w := range truth {
		if !recorded[line] && !gone[w.uid] && !incomplete(change.VersionOf(w.revision)) {
			s.t.Errorf("%q is missing, and no gap record says that it may be", line)
		}
	}
	if s.t.Failed() {
		s.t.Logf("etcd has %v\nthe log has %s\nand %+v", m.writes, says(s.log), gaps(controls))
	}
}

// judgeControls reports what one session has recorded twice: a list's beginning or end, or a part of a gap. If the server compacts
// states before they are read again, the rest of the gap has another record.
func (s *modelStream) judgeControls(session []change.Control) {
	times, closed := map[change.ControlType]int{}, change.ResourceVersion("")
	for _, c := range session {
		switch times[c.Type]++; {
		case c.Gap == nil && times[c.Type] > 1:
			s.t.Errorf("one session has %q twice", c.Type)
		case c.Gap != nil && !s.readsAgain && c.Gap.From.Compare(closed) < 0:
			s.t.Errorf("one session has a gap up to %s, and one from %s", closed, c.Gap.From)
		case c.Gap != nil:
			closed = c.Gap.To
		}
	}
}

// sharedSource is asked by the test and by its server.
type sharedSource struct {
	mu     sync.Mutex
	source rand.Source
}

func (s *sharedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Uint64()
}

// modelled runs a test with many histories, each with a seed of its own.
func modelled(t *testing.T, histories int, run func(t *testing.T, random *rand.Rand)) {
	t.Helper()
	seed := rand.Uint64()
	if n, err := strconv.Atoi(os.Getenv("KUBECDC_TEST_HISTORIES")); err == nil {
		histories = n
	}
	if s, err := strconv.ParseUint(os.Getenv("KUBECDC_TEST_SEED"), 10, 64); err == nil {
		seed, histories = s, 1
	}
	for n := range uint64(histories) {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("history %d of %d: KUBECDC_TEST_SEED=%d", n, histories, seed+n)
				}
			}()
			run(t, rand.New(&sharedSource{source: rand.NewPCG(seed+n, 0)}))
		})
	}
}

func newModelStream(t *testing.T, m *modelServer, resource string, options reflector.Options) *modelStream {
	options.PageSize, options.MaxBackoff = 2, time.Second
	if m.random.IntN(2) == 0 {
		options.Streaming = reflector.NewStreamingLists(true)
	}
	return &modelStream{t: t, resource: resource, config: &rest.Config{Host: "http://model", Transport: m, QPS: -1}, options: options,
		log: newLedger()}
}

// Lists, recoveries and watches are interrupted anywhere. Watches expire on one server and not on another, lists expire between
// two pages, and events are repeated. A deletion may have the version that the object had. Objects may leave a selector, and come
// back. Nothing is emitted twice or in the wrong order, and what is missing is in a gap whose record says so.
func TestRandomInterruptionsHideNothing(t *testing.T) {
	modelled(t, 300, func(t *testing.T, random *rand.Rand) {
		m := newModelServer(random)
		m.expires, m.repeats, m.writeChance = 0.5*random.Float64(), 0.2*random.Float64(), 0.7*random.Float64()
		options, readsAgain := testOptions(), random.IntN(2) == 0
		if readsAgain {
			options.Recovery.BodyBytes, m.fails = int64(1+random.IntN(1000)), 0.2*random.Float64()
		}
		if options.Recovery.Parallel = 1; random.IntN(2) == 0 { // a wait for a mutex would stop the clock
			options.Recovery = nil
		}
		if random.IntN(4) == 0 {
			m.stalls = 0.1
		}
		s := newModelStream(t, m, "configmaps", options)
		s.readsAgain = readsAgain
		if m.stale, m.selects = random.IntN(3) == 0, random.IntN(3) == 0; m.selects {
			s.selector = "app=a"
		}
		m.write(10, "configmaps")
		if random.IntN(2) == 0 {
			s.crashIn(1 + random.IntN(6))
		} else if random.IntN(2) == 0 {
			s.interruptIn(m, 1+random.IntN(6))
		}
		s.start()
		defer func() { _ = s.stop() }()
		for range 6 {
			interruption(m, s)
			m.write(1+random.IntN(8), "configmaps", "configmaps", "others")
			if !s.settle(m) {
				t.Fatalf("the log's state is not the server's: position %s, %v", s.log.position, s.log.objects)
			}
		}
		s.judge(m)
		for _, g := range gaps(s.log.controls) {
			if strings.Contains(g.Reason, "history went backwards") {
				t.Errorf("the server's history never went back: %+v", g)
			}
		}
	})
}

// etcd is restored from a backup, again and again, and grows past the positions before a stream reads it. The streams whose objects
// changed last since the backup find that out. All others, quiet or stopped, end with the server's state too.
func TestRandomRestoresAreFollowedByAllStreams(t *testing.T) {
	modelled(t, 150, func(t *testing.T, random *rand.Rand) {
		m := newModelServer(random)
		m.expires = 0.5 * random.Float64() // without compaction, which may hide the newest object
		restores := newRestores()
		var all []*modelStream
		for _, resource := range []string{"busy", "quiet", "silent"} {
			options := testOptions()
			if options.Recovery.Parallel, options.Restores = 1, restores; random.IntN(2) == 0 {
				options.Recovery = nil
			}
			s := newModelStream(t, m, resource, options)
			s.start()
			defer func() { _ = s.stop() }()
			all = append(all, s)
		}
		for round := range 3 {
			m.write(15, "busy", "quiet", "silent")
			m.settled(t, all)
			backup := m.now
			m.write(1+random.IntN(6), "busy", "quiet")
			for m.write(1, "busy"); m.writes[len(m.writes)-1].op == "d"; m.write(1, "busy") { // its newest object shows the restore
			}
			m.settled(t, all)
			seen, stopped := m.now, all[1+random.IntN(2)]
			if random.IntN(2) == 0 {
				_ = stopped.stop()
				time.Sleep(time.Second)
			}
			m.restore(backup)
			m.write(random.IntN(2 * int(seen-backup)))
			if m.now > seen {
				m.write(random.IntN(8), "busy", "quiet", "others")
			}
			if time.Sleep(time.Second); random.IntN(4) > 0 {
				all[random.IntN(3)].crashIn(1 + random.IntN(6))
			}
			stopped.restart()
			followed, reported := false, 0
			for tries := 0; !followed && tries < 60; tries++ {
				m.settled(t, all)
				followed, reported = restores.allFollowed()
			}
			if !followed || reported > round+1 {
				t.Fatalf("restore %d: streams reported %d to each other, and all have followed: %t", round+1, reported, followed)
			}
		}
	})
}

// settled lets all streams settle.
func (m *modelServer) settled(t *testing.T, all []*modelStream) {
	t.Helper()
	for _, s := range all {
		if !s.settle(m) {
			t.Fatalf("the log's state of %s is not the server's: position %s, %v; %+v", s.resource, s.log.position, s.log.objects,
				m.writesAt(s.resource, m.now))
		}
	}
}

// interruption does something to a stream while objects are written.
func interruption(m *modelServer, s *modelStream) {
	switch m.random.IntN(6) {
	case 0:
		s.crashIn(1 + m.random.IntN(8))
		m.endWatches()
	case 1:
		_ = s.stop()
		m.write(1+m.random.IntN(12), "configmaps", "others")
		if s.crashIn(1 + m.random.IntN(8)); m.random.IntN(2) == 0 {
			m.compacted = m.now - uint64(m.random.IntN(8))
		}
		s.start()
	case 2:
		m.endWatches()
	case 3:
		m.write(1 + m.random.IntN(5)) // only the revision moves
		s.restart()
	case 4:
		s.interruptIn(m, 1+m.random.IntN(4))
		m.compacted = m.now
		m.endWatches()
	case 5:
		s.stallIn(1+m.random.IntN(4), time.Duration(m.random.IntN(600))*time.Second)
		if m.random.IntN(2) == 0 {
			m.endWatches()
		}
	}
}
