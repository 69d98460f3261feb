package query_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/internal/fault"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
	"kubecdc/test/require"
	"kubecdc/test/sinktest"
)

// began is when the log of these tests began. Its minute n has resourceVersions up to n*100.
var began = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func minute(n int) time.Time { return began.Add(time.Duration(n) * time.Minute) }

// log is a log in memory, with what retention has left of it.
type log struct {
	controls []*change.Control
	changes  []*sinks.Logged
	retained time.Time
	custom   []string // resources other than pods
	lost     string
	failed   error // the error of reading control records
}

func (l *log) Resources(context.Context) ([]string, error) { return append(l.custom, "pods"), nil }

func (l *log) Retained(ctx context.Context, resources []string) (map[string]sinks.Retained, error) {
	known, _ := l.Resources(ctx)
	all := map[string]sinks.Retained{}
	for _, id := range known {
		if len(resources) == 0 || slices.Contains(resources, id) {
			all[id] = sinks.Retained{Since: l.retained, Lost: l.lost}
		}
	}
	return all, nil
}

func (l *log) CutAt(_ context.Context, logged time.Time) (sinks.Cut, error) {
	cut := sinks.Cut{Batches: map[int]uint64{0: 0}}
	for _, c := range l.controls {
		if c.Type == change.ControlBatch && c.Slot == 0 && c.Batch > 0 {
			if !logged.IsZero() && time.UnixMilli(c.TimeMs).After(logged) {
				break
			}
			cut.Batches[0] = c.Batch
		}
	}
	return cut, nil
}

func (l *log) FindsObjects() bool { return false }

// Changes visits copies, whose memory is overwritten after each visit.
func (l *log) Changes(_ context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	if q.Each != sinks.All || q.Keys != nil {
		return errors.ErrUnsupported
	}
	for _, c := range l.changes {
		resource := len(q.Resources) == 0 || slices.Contains(q.Resources, change.ResourceOf(c.Stream.ID()).ID())
		if resource && q.Spans(c) && q.Selects(c) {
			if err := sinktest.Visit(c, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *log) Audits(context.Context, audit.Query, func(*audit.Record) error) (audit.Coverage, error) {
	return audit.Coverage{}, nil
}

// stateLog is a log that finds the changes of objects.
type stateLog struct {
	*log
	rests *atomic.Int64 // how often the rest of the changes was read
}

func (l stateLog) FindsObjects() bool { return true }

func (l stateLog) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	if q.Keys != nil {
		byKey := *l.log
		byKey.changes = slices.SortedStableFunc(slices.Values(l.changes), func(a, b *sinks.Logged) int { return strings.Compare(a.Change.Key(), b.Change.Key()) })
		l.log, q.Keys = &byKey, nil
	}
	switch {
	case q.Each == sinks.Rest:
		return l.rest(ctx, q, visit)
	case q.Each == sinks.Last:
		return l.last(ctx, q, visit)
	}
	return l.log.Changes(ctx, q, visit)
}

func (l stateLog) last(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	last := map[string]*sinks.Logged{}
	_ = l.log.Changes(ctx, sinks.Query{To: q.To}, func(c *sinks.Logged) error {
		own := c.Clone()
		last[c.UID] = &own
		return nil
	})
	for _, uid := range slices.Sorted(maps.Keys(last)) {
		c := last[uid]
		if c.Op == change.Delete && !c.Inferred && c.Gap == "" || !q.Selects(c) {
			continue
		}
		alone := *c
		alone.Before = nil
		if err := visit(&alone); err != nil {
			return err
		}
	}
	return nil
}

func (l stateLog) rest(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	done := map[string]bool{}
	l.rests.Add(1)
	return l.log.Changes(ctx, sinks.Query{After: q.After}, func(c *sinks.Logged) error {
		if done[c.Name] = done[c.Name] || !q.Selects(c); done[c.Name] {
			return nil
		}
		return visit(c)
	})
}

// Controls visits spans of half a minute of batches that have no other control record. The first batch of an owner is visited
// separately.
func (l stateLog) Controls(ctx context.Context, since time.Time, inFull func(*sinks.Span) bool, visit func(*change.Control) error) error {
	if inFull == nil {
		return l.log.Controls(ctx, since, nil, visit)
	}
	var batches []*change.Control
	flush := func() error {
		all, last := batches, map[change.StreamID]change.Position{}
		if batches = nil; len(all) > 1 {
			end := *all[len(all)-1]
			span := sinks.Span{Control: &end, First: all[0].Batch, Earliest: end.Positions[0].Time}
			for _, c := range all {
				for _, p := range c.Positions {
					last[p.Stream] = p
					if p.Time.Before(span.Earliest) {
						span.Earliest = p.Time
					}
				}
			}
			if end.Positions = slices.Collect(maps.Values(last)); !inFull(&span) {
				return visit(&end)
			}
		}
		for _, c := range all {
			if err := visit(c); err != nil {
				return err
			}
		}
		return nil
	}
	epoch, controls := int64(0), l.since(since)
	for i, c := range controls {
		hasOthers := i > 0 && controls[i-1].Batch == c.Batch
		plain := c.Slot == 0 && c.Type == change.ControlBatch && c.Epoch == epoch && !hasOthers && len(c.Positions) > 0 && c.Positions[0].Ended == ""
		if epoch = c.Epoch; !plain || len(batches) > 0 && c.TimeMs-batches[0].TimeMs >= 30_000 {
			if err := flush(); err != nil {
				return err
			}
		}
		if plain {
			batches = append(batches, c)
		} else if err := visit(c); err != nil {
			return err
		}
	}
	return flush()
}

// since returns the control records from the first one on that was logged at a time or later.
func (l *log) since(t time.Time) []*change.Control {
	for i, c := range l.controls {
		if c.TimeMs >= t.UnixMilli() {
			return l.controls[i:]
		}
	}
	return nil
}

func (l *log) Controls(_ context.Context, since time.Time, _ func(*sinks.Span) bool, visit func(*change.Control) error) error {
	for _, c := range l.since(since) {
		if err := visit(c); err != nil {
			return err
		}
	}
	return l.failed
}

// batch writes a batch that happened at a minute. It is logged a minute later.
func (l *log) batch(happened int, controls []change.Control, changes ...sinks.Logged) {
	number, logged := uint64(happened+1), minute(happened+1)
	for _, c := range changes {
		c.Batch, c.Logged, c.Time = number, logged, minute(happened)
		l.changes = append(l.changes, &c)
	}
	for _, c := range append(controls, change.BatchControl("", change.BatchEnd{Positions: []change.Position{
		{Stream: "pods", ResourceVersion: change.VersionOf(uint64(happened*100 + 100)), Time: minute(happened)}}})) {
		c.Batch, c.TimeMs = number, logged.UnixMilli()
		l.controls = append(l.controls, &c)
	}
}

func body(name string, version int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":%q,"resourceVersion":"%d"}}`, name, version)
}

func changed(op change.Op, name string, version, was int) sinks.Logged {
	c := change.Change{Stream: change.ParseStream("pods"), Op: op, Namespace: "shop", Name: name, UID: "uid-" + name,
		ResourceVersion: change.VersionOf(uint64(version))}
	if op != change.Delete {
		c.After = body(name, version)
	}
	if was > 0 {
		c.Before = body(name, was)
	}
	return sinks.Logged{Change: c}
}

func newLog() *log {
	l := &log{}
	l.batch(0, []change.Control{{Type: change.ControlSnapshotEnd, Stream: "pods", ResourceVersion: "90"}},
		changed(change.Read, "a", 10, 0), changed(change.Read, "b", 20, 0), changed(change.Read, "x", 30, 0))
	l.batch(1, nil, changed(change.Update, "a", 110, 10))
	l.batch(2, nil, changed(change.Delete, "a", 210, 110), changed(change.Create, "c", 220, 0))
	deleted, updated := changed(change.Delete, "x", 30, 30), changed(change.Update, "b", 590, 20)
	deleted.Inferred, deleted.Gap, updated.Inferred, updated.Gap = true, "pods:300", true, "pods:300"
	l.batch(5, []change.Control{{Type: change.ControlGap, Stream: "pods",
		Gap: &change.Gap{ID: "pods:300", From: "300", To: "600", Reason: "compacted"}}}, updated, deleted)
	return l
}

// busy adds positions of another stream, which show that the exporter reads.
func (l *log) busy() *log {
	for s := range 600 {
		minute := began.Add(time.Duration(s) * time.Second)
		l.controls = append(l.controls, &change.Control{Type: change.ControlBatch, TimeMs: minute.UnixMilli(),
			BatchEnd: change.BatchEnd{Positions: []change.Position{{Stream: "nodes", ResourceVersion: "1", Time: minute}}}})
	}
	return l
}

func names(t *testing.T, s *query.State) string {
	t.Helper()
	var all []string
	if err := s.Objects(func(o *query.Object) error {
		if string(o.Body) != string(body(o.Name, atoi(string(o.ResourceVersion)))) {
			t.Errorf("%s at %s is %s", o.Name, o.ResourceVersion, o.Body)
		}
		all = append(all, o.Name+"@"+string(o.ResourceVersion))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func atoi(s string) (n int) {
	_, _ = fmt.Sscan(s, &n)
	return n
}

// The state of each moment is found, with what may be missing in it.
func TestStatesOfMoments(t *testing.T) {
	for _, tc := range []struct {
		moment, want, missing string
		logged                bool
	}{
		{moment: "90", want: "a@10 b@20 x@30"}, {moment: "109", want: "a@10 b@20 x@30"}, {moment: "110", want: "a@110 b@20 x@30"},
		{moment: "215", want: "b@20 x@30"}, {moment: "300", want: "b@20 c@220 x@30"}, {moment: "600", want: "b@590 c@220"},
		{moment: "50", want: "a@10 b@20 x@30", missing: "lacks older ones"},
		{moment: "700", want: "b@590 c@220", missing: "complete up to resourceVersion 600"},
		{moment: "400", want: "b@20 c@220 x@30", missing: "between resourceVersions 300 and 600 may be missing: compacted"},
		{moment: minute(1).Format(time.RFC3339), want: "a@110 b@20 x@30"},
		{moment: minute(1).Format(time.RFC3339), want: "a@10 b@20 x@30", logged: true},
		{moment: minute(-1).Format(time.RFC3339), missing: "no complete list of it by then"},
		{moment: "0/2", want: "a@110 b@20 x@30"}, {moment: "now", want: "b@590 c@220"},
	} {
		moment, err := (moment.Times | moment.Versions | moment.Checkpoints).Parse(tc.moment, minute(9))
		must(t, err)
		states, err := query.ReadStates(t.Context(), newLog().busy(), query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}, timeline.TargetOf(moment, tc.logged))
		must(t, err)
		missing := strings.Join(states[0].Missing, "\n")
		if got := names(t, states[0]); got != tc.want || !strings.Contains(missing, tc.missing) || (tc.missing == "") != (missing == "") {
			t.Errorf("%s: %s, want %s; missing: %s, want %q", tc.moment, got, tc.want, missing, tc.missing)
		}
	}
}

// The answer names each object that changed in a gap, at an unknown version.
func TestAnObjectThatChangedInAGapIsNamed(t *testing.T) {
	states, err := query.ReadStates(t.Context(), newLog(), query.Question{}, timeline.Target{Version: "400"})
	must(t, err)
	for _, want := range []string{"pods shop/b: it was updated at an unknown", "pods shop/x: it was deleted at an unknown"} {
		if !slices.ContainsFunc(states[0].Missing, func(m string) bool { return strings.HasPrefix(m, want) }) {
			t.Errorf("%q is not said: %q", want, states[0].Missing)
		}
	}
}

// Retention has removed the first two minutes. An object's state then is in the before-image of its next change, if there is one.
func TestStatesAfterRetention(t *testing.T) {
	for _, before := range []bool{true, false} {
		l := newLog()
		l.retained, l.changes = minute(2), l.changes[4:]
		if !before {
			for _, c := range l.changes {
				c.Before = nil
			}
		}
		states, err := query.ReadStates(t.Context(), l, query.Question{}, timeline.Target{Version: "205"}, timeline.Target{Version: "105"})
		must(t, err)
		want, missing := "a@110 b@20 x@30", ""
		if !before {
			want, missing = "", "the next change has no before-image"
		}
		said := strings.Join(states[0].Missing, "\n")
		if got := names(t, states[0]); got != want || !strings.Contains(said, missing) || before && said != "" {
			t.Errorf("with before-images %t: %s, want %s; missing %s", before, got, want, said)
		}
		if said := strings.Join(states[1].Missing, "\n"); !strings.Contains(said, "every change since resourceVersion 200") {
			t.Errorf("before what the log retains: %s", said)
		}
	}
}

func TestUnknownMoments(t *testing.T) {
	ask := func(moment timeline.Target, resources ...string) error {
		_, err := query.ReadStates(t.Context(), newLog(), query.Question{Objects: sinks.Objects{Resources: resources}}, moment)
		return err
	}
	if err := ask(timeline.Target{Batch: &moment.Batch{Number: 99}}); !errors.Is(err, sinks.ErrNotRetained) ||
		!strings.Contains(err.Error(), "its last one is 6") {
		t.Error(err)
	}
	if err := ask(timeline.Target{Batch: &moment.Batch{Slot: 7, Number: 1}}); !errors.Is(err, sinks.ErrNotRetained) {
		t.Error(err)
	}
	var none fault.Usage
	if err := ask(timeline.Target{}, "nodes"); !errors.As(err, &none) {
		t.Error(err)
	}
}

// Before a CRD served a resource, no objects of it existed, if the log has that CRD's creation. About other resources nothing is
// known.
func TestBeforeItsCRDNothingOfAResourceExisted(t *testing.T) {
	const crds, widgets = "customresourcedefinitions.apiextensions.k8s.io", "widgets.example.com"
	for _, tc := range []struct {
		defined string
		moment  int
		missing string
	}{{widgets, 3, ""}, {widgets, 5, "no complete list of it by then"}, {"others.example.com", 3, "no complete list of it by then"}} {
		l := &log{custom: []string{crds, widgets}}
		question := func(stream change.StreamID, n int, op change.Op, name string) {
			c := changed(op, name, n*100, 0)
			c.Stream, c.Namespace, c.UID = change.ParseStream(stream), "", name
			l.batch(n, []change.Control{{Type: change.ControlSnapshotEnd, Stream: stream, ResourceVersion: change.VersionOf(uint64(n * 100))}}, c)
			l.controls[len(l.controls)-1].Positions[0].Stream = stream
		}
		question(crds, 0, change.Read, "old.example.com")
		question(crds, 4, change.Create, tc.defined)
		question(widgets, 6, change.Read, "w")
		question(crds, 8, change.Create, "new.example.com")
		question(widgets, 9, change.Create, "x")
		states, err := query.ReadStates(t.Context(), l, query.Question{Objects: sinks.Objects{Resources: []string{widgets}}}, timeline.Target{Logged: minute(tc.moment + 1)})
		must(t, err)
		missing := strings.Join(states[0].Missing, "\n")
		if names(t, states[0]) != "" || !strings.Contains(missing, tc.missing) || (tc.missing == "") != (missing == "") {
			t.Errorf("minute %d, with the CRD %s: %s, lacks %q", tc.moment, tc.defined, names(t, states[0]), missing)
		}
	}
}

// A log without objects of a namespace that was not exported does not prove that there were none.
func TestNoStreamIsNoAnswer(t *testing.T) {
	l := newLog()
	for _, c := range l.controls {
		for i := range c.Positions {
			c.Positions[i].Stream = "pods@shop"
		}
		if c.Stream != "" {
			c.Stream = "pods@shop"
		}
	}
	const want = "the log has no stream of pods in namespace other"
	other := sinks.Objects{Resources: []string{"pods"}, Namespace: "other"}
	states, err := query.ReadStates(t.Context(), l, query.Question{Objects: other}, timeline.Target{})
	if err != nil || len(states[0].Missing) != 1 || !strings.HasPrefix(states[0].Missing[0], want) {
		t.Fatalf("the state of a namespace that was not exported: %d states, %v", len(states), err)
	}
	if _, missing, err := timeline.Covered(t.Context(), l, &other, time.Time{}); err != nil || len(missing) != 1 || !strings.HasPrefix(missing[0], want) {
		t.Errorf("the history lacks %q, %v", missing, err)
	}
}

const managed = `{"metadata":{"name":"a","labels":{"x/y":"1"},"managedFields":[%s]},"spec":{"containers":[{"image":"%s"}]}}`

// The managers of a change are those whose entries have a new time. A manager that lost a field has changed the object, too.
func TestEventsTellWhoAndWhat(t *testing.T) {
	entry := func(manager, happened, fields string) string {
		return fmt.Sprintf(`{"manager":%q,"operation":"Update","apiVersion":"v1","time":%q,"fieldsV1":%s}`, manager, happened, fields)
	}
	l := changed(change.Update, "a", 2, 1)
	l.Before = fmt.Appendf(nil, managed, entry("kubectl", "2026-06-01T12:00:00Z", `{"f:spec":{}}`), "1")
	l.After = fmt.Appendf(nil, managed, entry("kubectl", "2026-06-01T12:00:00Z", `{}`)+","+
		entry("argocd", "2026-06-01T12:01:00Z", `{"f:spec":{}}`), "2")
	events := query.EventMaker{}
	e, err := events.Event(&l)
	if err != nil || !slices.Equal(e.Managers, []string{"argocd"}) {
		t.Errorf("managers %v, %v", e.Managers, err)
	}
	l.Provenance.Managers = []byte(`helm,argo\,cd`)
	if e, err := events.Event(&l); err != nil || !slices.Equal(e.Managers, []string{"helm", "argo,cd"}) {
		t.Errorf("the log names helm and argo,cd, and the event %v, %v", e.Managers, err)
	}
	if l.Time, l.Provenance.Time = minute(60), minute(1); true {
		if e, err := events.Event(&l); err != nil || !e.Time.Equal(minute(1)) || !e.Seen.Equal(minute(60)) {
			t.Errorf("it happened at %s and was seen at %s, %v", e.Time, e.Seen, err)
		}
	}
	if len(e.Patch) != 3 {
		t.Errorf("the patch is %s", e.Patch)
	}
}

func TestFilters(t *testing.T) {
	l := changed(change.Update, "a", 2, 1)
	for expression, want := range map[string]bool{
		`op == "u" && name == "a" && ns == "shop" && resource == "pods"`:                  true,
		`before.metadata.resourceVersion == "1" && after.metadata.resourceVersion == "2"`: true,
		`op == "d"`: false, `has(after.spec)`: false, `after == null`: false,
	} {
		f, err := query.NewFilter(expression)
		must(t, err)
		if got, err := f.Selects(&l, nil); err != nil || got != want {
			t.Errorf("%s: %t, %v", expression, got, err)
		}
	}
	for _, wrong := range []string{`op ==`, `"text"`, `nobody == 1`} {
		if _, err := query.NewFilter(wrong); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
	if _, err := query.NewFilter(`nobody == 1`); !strings.Contains(err.Error(), "it may use before, after, op") {
		t.Error(err)
	}
	f, err := query.NewFilter(`after.spec.replicas > 1`)
	must(t, err)
	if got, err := f.Selects(&l, nil); got || err == nil {
		t.Errorf("a field that the object lacks: %t, %v", got, err)
	}
}

// Answers name what the log has lost until the loss has a record.
func TestALossIsMissingUntilItIsRecorded(t *testing.T) {
	l := newLog()
	l.lost = sinks.Unrecorded("records of pods were removed")
	states, err := query.ReadStates(t.Context(), l, query.Question{}, timeline.Target{})
	if err != nil || len(states[0].Missing) != 1 || !strings.Contains(states[0].Missing[0], "pods: records of pods were removed") {
		t.Errorf("the state lacks %q, %v", states[0].Missing, err)
	}
	if _, missing, err := timeline.Covered(t.Context(), l, &sinks.Objects{}, time.Time{}); err != nil || !strings.Contains(strings.Join(missing, "\n"), "removed") {
		t.Errorf("the history lacks %q, %v", missing, err)
	}
	if _, missing, err := query.TailStart(t.Context(), l, nil, timeline.Target{Logged: minute(1)}); err != nil || len(missing) != 1 {
		t.Errorf("the tail lacks %q, %v", missing, err)
	}
}

// A change that waited until its stream was read again is late, unless the object has its time.
func TestAChangeThatWasReadLate(t *testing.T) {
	l := newLog()
	behind := change.BehindControl("pods", "", minute(2), minute(3))
	l.controls = append(l.controls, &behind)
	coverage, _, err := timeline.Covered(t.Context(), l, &sinks.Objects{Resources: []string{"pods"}}, time.Time{})
	if err != nil || len(coverage) != 1 {
		t.Fatalf("%d streams, %v", len(coverage), err)
	}
	for seen, want := range map[time.Time]bool{minute(2): false, minute(2).Add(time.Second): true, minute(3): true, minute(4): false} {
		since, err := timeline.LateSince(t.Context(), l, seen)
		must(t, err)
		for _, isDated := range []bool{false, true} {
			c := changed(change.Delete, "a", 9, 8)
			if c.Time = seen; isDated {
				c.Op, c.Provenance = change.Create, change.Provenance{Time: minute(2), Source: change.FromCreationTimestamp}
			}
			for how, late := range map[string]func(*sinks.Logged) bool{"all": timeline.LateAmong(coverage).Has, "since then": since.Has} {
				events := query.EventMaker{ReadLate: late}
				if e, err := events.Event(&c); err != nil || e.Late != (want && !isDated) {
					t.Errorf("by the records %s a change that was seen at %s, dated: %t, is late: %t, %v", how, seen, isDated, e.Late, err)
				}
			}
		}
	}
}

// A question about the time since a gap ended is not answered with that gap.
func TestAGapBeforeTheQuestion(t *testing.T) {
	l := newLog()
	gap := change.GapControl("pods", "2", change.Gap{ID: "g", From: "1", To: "2", Reason: "compacted"}, "")
	gap.TimeMs = minute(2).UnixMilli()
	l.controls = append(l.controls, &gap)
	for since, want := range map[time.Time]int{{}: 2, minute(2): 2, minute(3): 1} { // the log has another gap, later
		coverage, missing, err := timeline.Covered(t.Context(), l, &sinks.Objects{Resources: []string{"pods"}}, since)
		if err != nil || len(missing) != want || len(coverage) != 1 || len(coverage[0].Gaps) != want {
			t.Errorf("since %s: %q, %v", since, missing, err)
		}
	}
}

// etcd is restored from a backup of minute 3: its list is at version 350, below the position 500. A time is answered from its
// history, a version if it stands for one state.
func TestTheTimesOfARestore(t *testing.T) {
	l := newLog()
	l.changes, l.controls = l.changes[:6], l.controls[:4]
	l.batch(3, nil, changed(change.Create, "d", 330, 0))
	l.batch(4, nil, changed(change.Update, "d", 420, 330), changed(change.Delete, "b", 430, 20))
	restored := []change.Control{{Type: change.ControlGap, Stream: "pods", Gap: &change.Gap{ID: "pods:500", From: "500", To: "350", Reason: change.HistoryWentBack}}}
	lost, again := changed(change.Update, "d", 330, 420), changed(change.Create, "b", 20, 0)
	for _, c := range []*sinks.Logged{&lost, &again} {
		c.Inferred, c.Gap = true, "pods:500"
	}
	l.batch(6, restored, lost, again)
	l.controls[len(l.controls)-1].Positions[0].ResourceVersion = "350"
	l.batch(7, nil, changed(change.Update, "x", 420, 30))
	l.controls[len(l.controls)-1].Positions[0].ResourceVersion = "450"
	l.busy()
	const twice = "pods: etcd was restored from a backup, and resourceVersion 425 stands for the states at 2026-06-01T12:03:00Z and 2026-06-01T12:06:00Z"
	for _, tc := range []struct {
		target        timeline.Target
		want, missing string
	}{
		{timeline.Target{Happened: minute(3)}, "b@20 c@220 d@330 x@30", ""}, {timeline.Target{Happened: minute(4)}, "c@220 d@420 x@30", ""},
		{timeline.Target{Happened: minute(5)}, "c@220 d@420 x@30", "then etcd was restored from a backup"}, {timeline.Target{Happened: minute(6)}, "b@20 c@220 d@330 x@30", ""},
		{timeline.Target{Happened: minute(7)}, "b@20 c@220 d@330 x@420", ""}, {timeline.Target{Version: "220"}, "b@20 c@220 x@30", ""},
		{timeline.Target{Version: "425"}, "", twice}, {timeline.Target{Version: "340"}, "", "resourceVersion 340 stands for the states"},
		{timeline.Target{Logged: minute(5)}, "c@220 d@420 x@30", "lacks what followed"}, {timeline.Target{}, "b@20 c@220 d@330 x@420", ""},
	} {
		states, err := query.ReadStates(t.Context(), l, query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}, tc.target)
		if err != nil {
			if tc.missing == "" || !strings.Contains(err.Error(), tc.missing) {
				t.Errorf("%s: %v, want %q", tc.target, err, tc.missing)
			}
			continue
		}
		missing := strings.Join(states[0].Missing, "\n")
		if got := names(t, states[0]); got != tc.want || !strings.Contains(missing, tc.missing) || (tc.missing == "") != (missing == "") {
			t.Errorf("%s: %s, want %s; missing: %s, want %q", tc.target, got, tc.want, missing, tc.missing)
		}
	}
}

// A restore of etcd brings an object back whose name another one has had since. A log that finds objects visits that one's
// deletion last.
func TestARestoreBringsAnObjectBackUnderItsName(t *testing.T) {
	l := newLog()
	l.changes, l.controls = l.changes[:3], l.controls[:2]
	others := func(c sinks.Logged, uid, gap string) sinks.Logged {
		c.UID, c.Inferred, c.Gap = uid, gap != "", gap
		return c
	}
	l.batch(1, nil, others(changed(change.Create, "n", 110, 0), "1", ""))
	l.batch(2, nil, others(changed(change.Delete, "n", 210, 110), "1", ""))
	l.batch(3, nil, others(changed(change.Create, "n", 310, 0), "2", ""))
	l.batch(4, []change.Control{{Type: change.ControlGap, Stream: "pods", Gap: &change.Gap{ID: "g", From: "400", To: "500", Reason: change.HistoryWentBack}}},
		others(changed(change.Delete, "n", 310, 310), "2", "g"), others(changed(change.Create, "n", 110, 0), "1", "g"))
	l.batch(5, nil)
	l.batch(6, nil, others(changed(change.Delete, "n", 690, 110), "1", ""))
	states, err := query.ReadStates(t.Context(), stateLog{l, &atomic.Int64{}}, query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}, timeline.Target{Version: "650"})
	must(t, err)
	if got := names(t, states[0]); got != "a@10 b@20 n@110 x@30" || len(states[0].Missing) > 0 {
		t.Errorf("%s lacks %q", got, states[0].Missing)
	}
}

var must = require.NoError
