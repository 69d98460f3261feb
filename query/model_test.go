package query_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// model is a cluster with one collection, an exporter that reads it, and a log, whose clock steps. The exporter stops, is paused
// or suspended, or falls behind its sink. It recovers what it missed or not, forgets its stream and begins again, or finds its
// resource removed. The log may lose its end. The model knows what existed at each time.
type model struct {
	*rand.Rand
	log          *log
	now          time.Time
	skew         time.Duration // difference of the log's clock
	confirms     bool          // the exporter reports its quiet streams as current
	announced    bool          // a record of this owner has named the current streams
	expires      bool          // several objects may be deleted at one version, as Events are: a position reaches it only after more changes
	before       int           // the version of the last deletion that no position has reached, or 0
	other        uint64        // batches of another replica's slot
	revision     int
	history      int             // how often etcd was restored
	histories    map[uint64]int  // the history of each batch
	begun        int             // the revision of the first list
	highest      int             // revision of all histories
	ends         []int           // the last position in each earlier history
	wrote        map[string]bool // each name with each of its versions
	live         map[string]int  // versions in the cluster
	logged       map[string]int  // versions in the log
	past         []past
	first        int            // the first change in the log since the stream began
	missed       []sinks.Logged // since the exporter stopped
	position     int
	positionTime time.Time // time of the position
	epoch        int64
	number       uint64
}

// past is the state from a time on.
type past struct {
	from     time.Time
	revision int
	objects  map[string]int
	history  int
	backup   int // the revision of the backup from which the history began
}

func newModel(seed uint64) *model {
	m := &model{Rand: rand.New(rand.NewPCG(seed, 23)), log: &log{}, now: began, live: map[string]int{}, logged: map[string]int{},
		histories: map[uint64]int{}, wrote: map[string]bool{}, revision: 100, epoch: 1}
	m.confirms, m.expires = m.IntN(2) == 0, m.IntN(3) == 0
	for range 4 {
		m.write()
	}
	m.missed, m.begun = nil, m.revision
	m.list()
	return m
}

func (m *model) wait(d time.Duration) {
	m.now = m.now.Add(time.Duration(m.Int64N(int64(d))) + time.Millisecond)
}

// write changes an object. The change is missed until it is seen.
func (m *model) write() {
	m.wait(9 * time.Second)
	name := string(rune('a' + m.IntN(8)))
	// No list shows that two histories wrote the same version.
	for m.revision += 1 + m.IntN(3); m.wrote[fmt.Sprint(name, m.revision)]; m.revision++ {
	}
	m.wrote[fmt.Sprint(name, m.revision)] = true
	was, op := m.live[name], change.Create
	if was > 0 {
		op = change.Update
		if m.IntN(3) == 0 {
			op = change.Delete
		}
	}
	l := changed(op, name, m.revision, was)
	l.UID = "uid-" + name
	switch {
	case op == change.Create:
		l.Provenance = change.Provenance{Time: m.now.Truncate(time.Second), Source: change.FromCreationTimestamp}
	case op == change.Update && m.IntN(4) > 0:
		l.Provenance = change.Provenance{Time: m.now.Truncate(time.Second), Source: change.FromManagedFields}
	}
	if op == change.Delete {
		delete(m.live, name)
	} else {
		m.live[name] = m.revision
	}
	m.remember()
	m.missed = append(m.missed, l)
}

func (m *model) remember() {
	backup := 0
	if n := len(m.past); n > 0 {
		backup = m.past[n-1].backup
	}
	m.past, m.highest = append(m.past, past{m.now, m.revision, maps.Clone(m.live), m.history, backup}), max(m.highest, m.revision)
}

// commit writes a batch of changes, which are seen now, with the position after it.
func (m *model) commit(position int, controls []change.Control, changes ...sinks.Logged) {
	m.number++
	if m.histories[m.number] = m.history; m.IntN(12) == 0 {
		m.skew = -time.Duration(m.Int64N(int64(5 * time.Second)))
	}
	logged := m.now.Add(m.skew)
	for _, c := range changes {
		if c.Batch, c.Logged, c.Epoch = m.number, logged, m.epoch; !m.fits(&c) {
			continue
		}
		if c.Time.IsZero() {
			c.Time = m.now
		}
		if v := atoi(string(c.ResourceVersion)); c.Op == change.Delete {
			delete(m.logged, c.Name)
		} else {
			m.logged[c.Name] = v
		}
		m.log.changes = append(m.log.changes, &c)
	}
	batch := change.Control{Type: change.ControlBatch}
	if position > 0 {
		if m.position, m.positionTime = position, m.now; position >= m.before {
			m.before = 0
		}
		batch.Positions = []change.Position{{Stream: "pods", ResourceVersion: change.VersionOf(uint64(position)), Time: m.now}}
	}
	for _, c := range append(controls, batch) {
		switch c.Batch, c.Epoch, c.TimeMs = m.number, m.epoch, m.now.UnixMilli(); c.Type {
		case change.ControlBatch:
			c.TimeMs = logged.UnixMilli()
		case change.ControlCurrent:
		default:
			c.Stream = "pods"
		}
		m.log.controls = append(m.log.controls, &c)
	}
}

// fits makes an event match what the log has. It reports false if the event is not newer.
func (m *model) fits(c *sinks.Logged) bool {
	was := m.logged[c.Name]
	switch {
	case c.Inferred || c.Op == change.Read:
		return true
	case was >= atoi(string(c.ResourceVersion)) || was == 0 && c.Op == change.Delete:
		return false
	case was == 0:
		c.Op, c.Before = change.Create, nil
	default:
		if c.Before = body(c.Name, was); c.Op == change.Create {
			c.Op = change.Update
		}
	}
	return true
}

// list is a first list.
func (m *model) list() {
	var read []sinks.Logged
	for name, version := range m.live {
		read = append(read, changed(change.Read, name, version, 0))
	}
	m.logged, m.first = map[string]int{}, len(m.log.changes)
	m.listed(read)
}

// listed commits what a list found that is no relist.
func (m *model) listed(read []sinks.Logged) {
	m.missed = nil
	m.commit(0, []change.Control{{Type: change.ControlSnapshotBegin}}, read[:len(read)/2]...)
	m.now = m.now.Add(time.Millisecond)
	m.commit(m.revision, []change.Control{{Type: change.ControlSnapshotEnd, ResourceVersion: change.VersionOf(uint64(m.revision))}},
		read[len(read)/2:]...)
}

// watch reads missed changes, then live ones, with a bookmark each minute.
func (m *model) watch(changes int) {
	for range changes {
		for m.IntN(2) == 0 && len(m.missed) == 0 {
			m.quiet()
			m.commit(m.revision, nil)
		}
		m.write()
		m.deliver()
	}
}

// quiet is a time without changes. The exporter may report every few seconds that its streams are current.
func (m *model) quiet() {
	end := m.now.Add(time.Duration(m.Int64N(int64(time.Minute))))
	for since := m.now; m.confirms && m.now.Before(end); since = m.now {
		m.now = m.now.Add(10 * time.Second)
		c := change.CurrentControl(nil, since, m.now)
		if !m.announced {
			c.Streams, m.announced = []change.StreamID{"pods"}, true
		}
		m.commit(0, []change.Control{c})
	}
	if m.now.Before(end) {
		m.now = end
	}
}

// behind reads late: the process is suspended, or its sink is slow. Another replica goes on. So does a stream of the same slot,
// before and after.
func (m *model) behind() {
	since, slow := m.now, m.IntN(2) == 0
	m.otherPosition()
	for range 1 + m.IntN(4) {
		m.write()
		m.others()
		if slow && m.IntN(2) == 0 { // some of the changes are read
			m.now = m.now.Add(time.Duration(m.Int64N(int64(4 * time.Second))))
			n := 1 + m.IntN(len(m.missed))
			m.commit(atoi(string(m.missed[n-1].ResourceVersion)), []change.Control{change.BehindControl("pods", "", since, m.now)}, m.missed[:n]...)
			m.missed = m.missed[n:]
		}
	}
	for len(m.missed) > 0 {
		m.now = m.now.Add(time.Duration(m.IntN(1000)) * time.Millisecond)
		n := 1 + m.IntN(len(m.missed))
		late := []change.Control{change.BehindControl("pods", "", since, m.now)}
		if m.now.Sub(since) < time.Second {
			late = nil
		}
		m.commit(atoi(string(m.missed[n-1].ResourceVersion)), late, m.missed[:n]...)
		m.missed = m.missed[n:]
	}
	m.otherPosition()
}

// otherPosition writes a position of another stream of the slot.
func (m *model) otherPosition() {
	m.commit(0, nil)
	m.log.controls[len(m.log.controls)-1].Positions = []change.Position{{Stream: "leases", ResourceVersion: "1", Time: m.now}}
}

// others writes positions of another slot's streams, one for each second until now.
func (m *model) others() {
	for second := m.now.Add(-10 * time.Second); !second.After(m.now); second = second.Add(time.Second) {
		m.other++
		m.log.controls = append(m.log.controls, &change.Control{Type: change.ControlBatch, Slot: 1, Epoch: 1, Batch: m.other, TimeMs: second.UnixMilli(),
			BatchEnd: change.BatchEnd{Positions: []change.Position{{Stream: "nodes", ResourceVersion: "1", Time: second}}}})
	}
}

// deliver commits the missed changes one by one.
func (m *model) deliver() {
	for len(m.missed) > 0 {
		m.now = m.now.Add(time.Duration(m.IntN(200)+1) * time.Millisecond)
		n := 1 + m.IntN(len(m.missed))
		m.commit(m.upTo(m.missed[:n]), nil, m.missed[:n]...)
		m.missed = m.missed[n:]
	}
}

// upTo returns the position after some changes, or 0 if it does not move.
func (m *model) upTo(changes []sinks.Logged) (position int) {
	for _, c := range changes {
		if v := atoi(string(c.ResourceVersion)); !m.expires || c.Op != change.Delete {
			position, m.before = v, 0
		} else {
			position, m.before = max(position, m.before), v
		}
	}
	return position
}

// outage is a time in which nothing is read, and one of its possible ends.
func (m *model) outage() {
	paused, silent := m.IntN(3) == 0, m.IntN(4) == 0
	if silent { // a network that fails for a while leaves no trace
		for range 1 + m.IntN(6) {
			m.write()
		}
		m.deliver()
		return
	}
	if paused {
		m.commit(0, []change.Control{{Type: change.ControlStreamPaused}})
	}
	for range m.IntN(6) {
		m.write()
	}
	m.wait(5 * time.Minute)
	if paused {
		m.commit(0, []change.Control{{Type: change.ControlStreamResumed}})
	} else {
		m.newOwner()
	}
	switch n := m.IntN(19); { // losses are rare, since nothing before a loss is known any more
	case n >= 16:
		m.restore()
	case n == 15:
		m.lose()
	case n%5 == 0:
		m.relist()
	case n%5 == 1:
		m.recover()
	case n%5 == 2:
		m.commit(0, nil) // a batch of another stream
		m.list()         // the stream was forgotten
	case n%5 == 3:
		m.remove()
	default:
		m.deliver()
	}
}

func (m *model) newOwner() { m.epoch, m.announced = m.epoch+1, false }

func (m *model) gap(complete bool) []change.Control {
	from, to := change.VersionOf(uint64(m.position)), change.VersionOf(uint64(m.revision))
	gap := &change.Gap{ID: change.GapID("pods", from), From: from, To: to, Complete: complete, Reason: "compacted"}
	return []change.Control{{Type: change.ControlGap, Gap: gap}}
}

// recover commits the missed changes as a recovery does.
func (m *model) recover() {
	g := m.gap(true)
	m.commit(0, g)
	for i := range m.missed {
		m.missed[i].Gap = g[0].Gap.ID
	}
	end := m.revision
	m.deliver()
	m.commit(end, nil)
}

// relist commits the differences, and the gap at the end.
func (m *model) relist() {
	g := m.gap(false)
	found := m.differences(g[0].Gap.ID, change.Create)
	m.missed = nil
	n := m.IntN(len(found) + 1)
	m.commit(0, nil, found[:n]...)
	m.wait(100 * time.Millisecond)
	m.commit(m.revision, g, found[n:]...)
}

// restore restores etcd from a backup, perhaps with another revision, and the exporter compares all objects with the log. It may
// be interrupted. The exporter of an old log does not say what it has found.
func (m *model) restore() {
	m.wait(time.Minute)
	first := max(0, len(m.past)-1-m.IntN(12))
	backup := m.past[first+m.IntN(len(m.past)-first)]
	for backup.history != m.history { // it is of the present history
		backup = m.past[len(m.past)-1]
	}
	m.ends, m.before = append(m.ends, m.position), 0
	m.history, m.revision, m.live, m.missed = m.history+1, backup.revision, maps.Clone(backup.objects), nil
	if m.IntN(4) == 0 {
		m.revision = m.highest + 1_000_000
	}
	m.remember()
	m.past[len(m.past)-1].backup = backup.revision
	for range m.IntN(10) {
		m.write()
	}
	kind, g := m.IntN(3), m.gap(false)
	if kind == 0 { // a watch or a list was older than the log
		m.commit(0, nil)
		m.log.controls[len(m.log.controls)-1].Positions = []change.Position{{Stream: "pods", ResourceVersion: change.UnknownVersion, Time: m.now}}
	}
	if found := m.differences(g[0].Gap.ID, change.Create); m.IntN(3) == 0 { // a part of the first list
		m.commit(0, nil, found[:m.IntN(len(found)+1)]...)
		m.newOwner()
		if m.write(); kind == 0 {
			g[0].Gap.From, g[0].Gap.ID = change.UnknownVersion, change.GapID("pods", change.UnknownVersion)
		}
	}
	if g[0].Gap.To = change.VersionOf(uint64(m.revision)); kind != 2 || m.revision >= m.position {
		g[0].Gap.Reason = change.HistoryWentBack + ": the server was restored from a backup"
	}
	found := m.differences(g[0].Gap.ID, change.Create)
	m.missed = nil
	n := m.IntN(len(found) + 1)
	m.commit(0, nil, found[:n]...)
	m.wait(100 * time.Millisecond)
	if m.IntN(2) == 0 {
		m.commit(m.revision, g, found[n:]...)
		return
	}
	m.commit(0, g, found[n:]...)
	m.commit(m.revision, nil)
}

// lag loses the missed changes without a record, or commits parts of a list or a recovery before a crash. A proof or a snapshot
// may find them much later.
func (m *model) lag() {
	for range 1 + m.IntN(4) {
		m.write()
	}
	found := m.differences("", change.Create)
	if m.IntN(2) == 0 {
		found = slices.Clone(m.missed)
	}
	kind := m.IntN(3)
	for i := range found {
		if kind > 0 {
			found[i].Gap = "torn"
		}
	}
	if n := m.IntN(len(found) + 1); kind > 0 {
		m.commit(0, nil, found[:n]...)
		m.newOwner()
	}
	if m.IntN(2) == 0 { // the watch can resume
		m.deliver()
	}
	m.missed = nil
	for m.IntN(3) > 0 {
		m.watch(1)
	}
	if kind = m.IntN(3); kind == 0 {
		return
	}
	found = m.differences(fmt.Sprint("proof", m.number), change.Create)
	if kind == 1 {
		for i := range found {
			found[i].Gap = ""
		}
		m.commit(0, nil, found...)
		return
	}
	g := m.gap(false)
	g[0].Gap.ID = fmt.Sprint("proof", m.number)
	m.commit(0, g, found...)
}

// differences returns what a list finds that the log does not have.
func (m *model) differences(gap string, absent change.Op) (found []sinks.Logged) {
	infer := func(op change.Op, name string, version, was int) {
		c := changed(op, name, version, was)
		c.Inferred, c.Gap = op != change.Read, gap
		found = append(found, c)
	}
	for name, version := range m.live {
		if was := m.logged[name]; was == 0 {
			infer(absent, name, version, 0)
		} else if was != version {
			infer(change.Update, name, version, was)
		}
	}
	for name, was := range m.logged {
		if m.live[name] == 0 {
			infer(change.Delete, name, was, was)
		}
	}
	return found
}

// lose removes the last changes of the log. A list is compared with the rest.
func (m *model) lose() {
	m.log.changes = m.log.changes[:max(m.first, len(m.log.changes)-1-m.IntN(6))]
	m.logged = map[string]int{}
	for _, c := range m.log.changes[m.first:] {
		if m.logged[c.Name] = atoi(string(c.ResourceVersion)); c.Op == change.Delete {
			delete(m.logged, c.Name)
		}
	}
	m.commit(0, []change.Control{{Type: change.ControlGap, Gap: &change.Gap{ID: "loss", From: change.UnknownVersion,
		To: change.VersionOf(uint64(m.position)), Reason: "the log has lost records"}}})
	if m.write(); m.IntN(2) == 0 {
		m.listed(m.differences("", change.Read))
		return
	}
	m.wait(time.Minute) // the position is lost, too
	g := m.gap(false)
	g[0].Gap.From = change.UnknownVersion
	m.commit(0, g)
	m.commit(m.revision, nil, m.differences(g[0].Gap.ID, change.Create)...)
	m.missed = nil
}

// remove removes the resource, and serves it again.
func (m *model) remove() {
	m.missed = nil
	m.wait(time.Second)
	m.live = map[string]int{}
	m.revision++
	m.remember()
	m.wait(10 * time.Second)
	var found []sinks.Logged
	for name, was := range m.logged {
		c := changed(change.Delete, name, was, was)
		c.Inferred = true
		found = append(found, c)
	}
	m.commit(0, nil, found...)
	m.now = m.now.Add(time.Millisecond)
	m.number++
	m.log.controls = append(m.log.controls, &change.Control{Type: change.ControlBatch, Batch: m.number, Epoch: m.epoch,
		TimeMs: m.now.UnixMilli(), BatchEnd: change.BatchEnd{
			Positions: []change.Position{{Stream: "pods", Time: m.now, Ended: change.EndedRemoved}}}})
	if m.wait(3 * time.Minute); m.IntN(2) == 0 {
		m.write()
	}
	m.list()
}

// truth returns what existed at a time.
func (m *model) truth(belongs func(past) bool) string {
	var all []string
	for _, p := range m.past {
		if belongs(p) {
			all = nil
			for _, name := range slices.Sorted(maps.Keys(p.objects)) {
				all = append(all, fmt.Sprintf("%s@%d", name, p.objects[name]))
			}
		}
	}
	return strings.Join(all, " ")
}

// A log that finds states answers like a log in which all is read, however late changes were seen.
func TestALogThatFindsStatesAnswersAlike(t *testing.T) {
	asked, quick := int64(0), &atomic.Int64{}
	for seed := range uint64(60) {
		m := newModel(seed)
		for range 3 {
			m.watch(3 + m.IntN(5))
			m.outage()
			m.watch(1)
			m.behind()
			m.lag()
		}
		m.watch(3)
		for range 40 {
			moment := m.moment()
			want, err := query.ReadStates(t.Context(), m.log, query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}, moment)
			var twice *timeline.TwoStatesError
			if errors.As(err, &twice) {
				continue
			}
			must(t, err)
			asked++
			got, err := query.ReadStates(t.Context(), stateLog{m.log, quick}, query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}, moment)
			must(t, err)
			if got, want := names(t, got[0]), names(t, want[0]); got != want {
				t.Errorf("seed %d, %s: %s, want %s", seed, moment, got, want)
			}
			if !slices.Equal(got[0].Missing, want[0].Missing) {
				t.Errorf("seed %d, %s: lacks %q, want %q", seed, moment, got[0].Missing, want[0].Missing)
			}
		}
	}
	if t.Logf("%d of %d questions were answered by states", quick.Load(), asked); quick.Load() < asked/2 {
		t.Error("most are not")
	}
}

// A log loses its end. New batches have the numbers of the lost ones, and a follower reads them. It returns the error of a read that fails.
func TestAFollowedLogLosesItsEnd(t *testing.T) {
	l := &log{}
	follower := timeline.NewFollower(l)
	end := func() string {
		pages, err := opened(t, follower, timeline.Target{})
		must(t, err)
		return string(pages.Coverage[0].UpTo)
	}
	numbered := func(epoch int64, batch uint64, version string) *change.Control {
		c := change.BatchControl("", change.BatchEnd{Positions: []change.Position{{Stream: "pods", ResourceVersion: change.ResourceVersion(version), Time: minute(int(batch))}}})
		c.Epoch, c.Batch, c.TimeMs = epoch, batch, minute(int(batch)).UnixMilli()
		return &c
	}
	for _, step := range []struct {
		controls []*change.Control
		want     string
	}{{[]*change.Control{numbered(1, 1, "10"), numbered(1, 2, "20")}, "20"}, {[]*change.Control{numbered(1, 1, "10"), numbered(2, 2, "15")}, "15"},
		{[]*change.Control{numbered(1, 1, "10"), numbered(2, 2, "15"), numbered(2, 3, "30")}, "30"}} {
		l.controls = step.controls
		if got := end(); got != step.want {
			t.Errorf("the log is complete up to %s, want %s", got, step.want)
		}
	}
	l.failed = errors.New("the disk")
	if _, err := opened(t, follower, timeline.Target{}); !errors.Is(err, l.failed) {
		t.Errorf("a read that fails: %v", err)
	}
	if l.failed = nil; end() != "30" {
		t.Errorf("after it the log is complete up to %s", end())
	}
}

// opened returns the pages of a followed log's pods.
func opened(t *testing.T, f *timeline.Follower, moment timeline.Target) (*query.Pages, error) {
	t.Helper()
	question := query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}
	found, err := f.Moment(t.Context(), question.Resources, moment)
	if err != nil {
		return nil, err
	}
	return query.OpenPages(t.Context(), f, found, question, moment)
}

// counted counts the control records that are read.
type counted struct {
	sinks.Reader
	controls *int
}

func (l counted) Controls(ctx context.Context, since time.Time, inFull func(*sinks.Span) bool, visit func(*change.Control) error) error {
	return l.Reader.Controls(ctx, since, inFull, func(c *change.Control) error {
		*l.controls++
		return visit(c)
	})
}

// wantAlike wants the same answer about a moment from a followed log as from one that is read from its start.
func (m *model) wantAlike(t *testing.T, seed uint64, f *timeline.Follower, l sinks.Reader, moment timeline.Target) {
	t.Helper()
	states, err := query.ReadStates(t.Context(), l, query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}, moment)
	pages, alike := opened(t, f, moment)
	var twice *timeline.TwoStatesError
	if errors.As(err, &twice) && alike != nil && alike.Error() == err.Error()[len(moment.String()+": "):] {
		return
	}
	if err != nil || alike != nil {
		t.Fatalf("seed %d, %s: %v, want %v", seed, moment, alike, err)
	}
	page, err := pages.Page(t.Context(), query.Within{}, 1000)
	must(t, err)
	want, got := names(t, states[0]), ""
	for _, o := range page.Objects {
		got = strings.TrimSpace(got + " " + o.Name + "@" + string(o.ResourceVersion))
	}
	for i, c := range states[0].Coverage {
		c.Missing = pages.Coverage[i].Missing // page.Missing has all
		if !reflect.DeepEqual(pages.Coverage[i], c) {
			t.Fatalf("seed %d, %s: %+v, want %+v", seed, moment, pages.Coverage[i], c)
		}
	}
	if got != want || !slices.Equal(page.Missing, states[0].Missing) {
		t.Fatalf("seed %d, %s: %s lacks %q, want %s, which lacks %q", seed, moment, got, page.Missing, want, states[0].Missing)
	}
}

// moment returns a random moment of the log.
func (m *model) moment() timeline.Target {
	target := timeline.Target{Happened: began.Add(time.Duration(m.Int64N(int64(m.now.Sub(began) + time.Minute))))}
	switch m.IntN(6) {
	case 0:
		return timeline.Target{Logged: target.Happened}
	case 5:
		return timeline.Target{Batch: &moment.Batch{Number: 1 + m.Uint64N(m.number)}}
	case 1, 2:
		return timeline.Target{Version: change.VersionOf(uint64(m.version()))}
	}
	return target
}

// version returns a random version of the log, or one that is near to it.
func (m *model) version() int { return max(90, m.past[m.IntN(len(m.past))].revision+m.IntN(7)-3) }

// A log that is followed tells as much of its end, and of each earlier moment, as one that is read from its start. That holds whatever
// happened in between, and if it is read by spans.
func TestAFollowedLogAnswersAlike(t *testing.T) {
	for seed := range uint64(100) {
		m, quick := newModel(seed), &atomic.Int64{}
		l := stateLog{m.log, quick}
		f := timeline.NewFollower(l)
		for range 4 {
			for _, step := range []func(){func() { m.watch(1 + m.IntN(5)) }, m.outage, m.behind, m.lag} {
				step()
				m.wantAlike(t, seed, f, l, timeline.Target{})
				for range 3 {
					m.wantAlike(t, seed, f, l, m.moment())
				}
				end, err := f.Moment(t.Context(), []string{"pods"}, timeline.Target{})
				must(t, err)
				if cut, err := m.log.CutAt(t.Context(), time.Time{}); err != nil || cut.Batches[0] != end.Cut.Batches[0] {
					t.Fatalf("seed %d: the end is at batch %d, want %d; %v", seed, end.Cut.Batches[0], cut.Batches[0], err)
				}
			}
		}
		fresh := timeline.NewFollower(l) // which has read more by spans
		for range 20 {
			m.wantAlike(t, seed, fresh, l, m.moment())
		}
	}
}

// A question about a moment reads few control records of a long log: those near the moment.
func TestAMomentReadsFewRecords(t *testing.T) {
	for seed := range uint64(2) {
		m, quick, all, few := newModel(seed), &atomic.Int64{}, 0, 0
		for range 20 {
			m.watch(100)
			m.outage()
		}
		l := stateLog{m.log, quick}
		f := timeline.NewFollower(counted{l, &few})
		m.wantAlike(t, seed, f, l, timeline.Target{})
		first, asked := few, 100
		for few = 0; asked > 0; asked-- {
			m.wantAlike(t, seed, f, counted{l, &all}, m.moment())
		}
		t.Logf("the first question reads %d of %d records, each one about a moment %d, and %d without a follower", first, len(m.log.controls), few/100, all/100)
		if few > all/5 {
			t.Error("a moment reads too many")
		}
	}
}

// Many clients ask at once about a log that nobody has followed yet.
func TestManyAskAFollowedLog(t *testing.T) {
	m, l := newModel(1), stateLog{rests: &atomic.Int64{}}
	for range 10 {
		m.watch(20)
		m.outage()
	}
	l.log = m.log
	f := timeline.NewFollower(l)
	for range 8 {
		moments := []timeline.Target{m.moment(), {}, m.moment(), m.moment()}
		t.Run("client", func(t *testing.T) {
			t.Parallel()
			for _, moment := range moments {
				m.wantAlike(t, 1, f, l, moment)
			}
		})
	}
}

// An answer is right or refused, for each time and version, whatever failed between the cluster and the log.
func TestAnAnswerIsRightOrRefused(t *testing.T) {
	asked, answered := 0, 0
	for seed := range uint64(300) {
		m := newModel(seed)
		ask := func(n int) {
			for range n {
				if asked++; m.ask(t, seed) {
					answered++
				}
			}
		}
		for range 4 {
			m.watch(3 + m.IntN(5))
			if ask(5); m.IntN(2) == 0 {
				m.behind()
				ask(5)
			}
			m.outage()
			ask(2)
		}
		m.watch(3)
		ask(40)
	}
	t.Logf("%d of %d questions were answered", answered, asked)
	if answered < asked/2 {
		t.Error("most questions are refused")
	}
}

// Somebody removes an update from a log, whatever happened to it before. The next change of its object shows that, and a question about
// the update is refused or answered right. Nothing shows that while nothing is removed.
func TestARemovedUpdateIsNoticed(t *testing.T) {
	noticed := 0
	for seed := range uint64(300) {
		m := newModel(seed)
		for range 4 {
			m.watch(3 + m.IntN(5))
			m.behind()
			m.outage()
			m.lag()
		}
		m.watch(3)
		if text := m.remark(); text != "" {
			t.Fatalf("seed %d: nothing was removed, and %s", seed, text)
		}
		for i, removed := range m.log.changes {
			next := slices.IndexFunc(m.log.changes[i+1:], func(l *sinks.Logged) bool { return l.Name == removed.Name })
			if removed.Op != change.Update || next < 0 || removed.ResourceVersion.Compare("100") < 0 || m.histories[removed.Batch] != m.history ||
				string(m.log.changes[i+1+next].Before) != string(removed.After) || !m.follows(i) {
				continue
			}
			m.log.changes = slices.Delete(slices.Clone(m.log.changes), i, i+1)
			if text := m.remark(); !strings.Contains(text, "pods shop/"+removed.Name+" to resourceVersion "+string(removed.ResourceVersion)) {
				t.Fatalf("seed %d: %s@%s is removed, and the remark is %q", seed, removed.Name, removed.ResourceVersion, text)
			}
			m.askVersion(t, seed, atoi(string(removed.ResourceVersion)))
			noticed++
			break
		}
	}
	if t.Logf("%d of 300 were noticed", noticed); noticed < 200 {
		t.Error("too few updates were removed")
	}
}

// remark returns what the before-images of a log show.
func (m *model) remark() string {
	var chain query.Chain
	for _, l := range m.log.changes {
		chain.Add(l)
	}
	return chain.Lacks
}

// follows reports whether a change is newer than the one of its object before it.
func (m *model) follows(i int) bool {
	for _, l := range slices.Backward(m.log.changes[:i]) {
		if l.Name == m.log.changes[i].Name {
			return l.ResourceVersion.Compare(m.log.changes[i].ResourceVersion) < 0
		}
	}
	return false
}

// ask asks a question, and reports whether it was answered.
func (m *model) ask(t *testing.T, seed uint64) bool {
	when := began.Add(time.Duration(m.Int64N(int64(m.now.Sub(began) + time.Minute))))
	if m.IntN(4) > 0 {
		when = when.Truncate(time.Second)
	}
	moment, belongs := timeline.Target{Happened: when}, func(p past) bool { return !p.from.After(when) }
	logged := m.IntN(4) == 0
	switch {
	case logged:
		moment = timeline.Target{Logged: when}
	case m.IntN(4) == 0:
		return m.askVersion(t, seed, m.version())
	}
	states, err := query.ReadStates(t.Context(), m.log, query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}, moment)
	must(t, err)
	if len(states[0].Missing) > 0 {
		return false
	}
	if logged { // the log has the state at its position
		revision, cut := atoi(string(states[0].Coverage[0].At)), m.cutAt(t, when)
		history := m.historyAt(cut)
		for _, l := range m.log.changes {
			if v := atoi(string(l.ResourceVersion)); m.expires && l.Op == change.Delete && !l.Inferred && l.Batch <= cut && m.histories[l.Batch] == history {
				revision = max(revision, v)
			}
		}
		belongs = m.in(history, revision)
	}
	if got, want := names(t, states[0]), m.truth(belongs); got != want {
		t.Errorf("seed %d, %s: %s, want %s", seed, moment, got, want)
	}
	return true
}

// cutAt returns the last batch by a time.
func (m *model) cutAt(t *testing.T, logged time.Time) uint64 {
	t.Helper()
	cut, err := m.log.CutAt(t.Context(), logged)
	must(t, err)
	return cut.Batches[0]
}

// historyAt returns the history of the last position up to a batch.
func (m *model) historyAt(batch uint64) (history int) {
	for _, c := range m.log.controls {
		for _, p := range c.Positions {
			if p.Stream == "pods" && p.ResourceVersion != change.UnknownVersion && c.Batch <= batch {
				history = m.histories[c.Batch]
			}
		}
	}
	return history
}

// in selects the states of a history up to a revision. A history begins with a backup of the one before.
func (m *model) in(history, revision int) func(past) bool {
	for history > 0 {
		backup := m.past[slices.IndexFunc(m.past, func(p past) bool { return p.history == history })].backup
		if revision > backup {
			break
		}
		history--
	}
	return func(p past) bool { return p.history <= history && p.revision <= revision && !m.isUndone(p, history) }
}

// isUndone reports whether a state of an earlier history is newer than the backup from which a later one began.
func (m *model) isUndone(p past, history int) bool {
	return slices.ContainsFunc(m.past, func(other past) bool {
		return other.history > p.history && other.history <= history && p.revision > other.backup
	})
}

// askVersion asks for a version. If several histories have it, and had other states then, the answer is an error that says when.
func (m *model) askVersion(t *testing.T, seed uint64, revision int) bool {
	moment := timeline.Target{Version: change.VersionOf(uint64(revision))}
	states, err := query.ReadStates(t.Context(), m.log, query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}, moment)
	var twice *timeline.TwoStatesError
	if errors.As(err, &twice) {
		return false
	}
	must(t, err)
	if len(states[0].Missing) > 0 {
		return false
	}
	got, all := names(t, states[0]), map[string]bool{}
	for h := range m.history + 1 {
		if h == m.history && (revision <= m.revision || len(all) == 0) || h < m.history && revision <= m.ends[h] && revision >= m.begun {
			all[m.truth(m.in(h, revision))] = true
		}
	}
	if !all[got] || len(all) > 1 {
		t.Errorf("seed %d, %s: %s, want %q", seed, moment, got, slices.Sorted(maps.Keys(all)))
	}
	return true
}
