package past

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// randomLog is a log with audit events. Some changes were read late, whose audit events came at once, and some were recovered. The log's clock
// differs from the exporter's.
type randomLog struct {
	livesLog
	requests []audit.Record
	controls []change.Control
	skew     time.Duration
	pruned   int // the batches of so many changes are pruned, which are their objects' last states then
}

func (l *randomLog) CutAt(_ context.Context, logged time.Time) (sinks.Cut, error) {
	if n := l.pruned; n > 0 && (n == len(l.past) || logged.Before(l.past[n].Logged)) {
		return sinks.Cut{}, sinks.ErrNotRetained
	}
	n := 0
	for ; n < len(l.past) && !l.past[n].Logged.After(logged); n++ {
	}
	return sinks.Cut{Batches: map[int]uint64{0: uint64(n)}}, nil
}

func (l *randomLog) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	return l.livesLog.Changes(ctx, q, func(c *sinks.Logged) error {
		if (q.After == nil || !q.After.Has(c)) && (q.Wanted == nil || q.Wanted(c)) {
			return visit(c)
		}
		return nil
	})
}

func (l *randomLog) Retained(context.Context, []string) (map[string]sinks.Retained, error) {
	return map[string]sinks.Retained{"configmaps": {}}, nil
}

func (l *randomLog) Controls(_ context.Context, since time.Time, _ func(*sinks.Span) bool, visit func(*change.Control) error) error {
	for _, c := range l.controls {
		if time.UnixMilli(c.TimeMs).Add(l.skew).Before(since) {
			continue
		}
		if err := visit(&c); err != nil {
			return err
		}
	}
	return nil
}

func (l *randomLog) Audits(_ context.Context, q audit.Query, visit func(*audit.Record) error) (audit.Coverage, error) {
	for _, r := range l.requests {
		if r.Received.Before(q.Since) {
			continue
		}
		if err := visit(&r); err != nil {
			return audit.Coverage{}, err
		}
	}
	return audit.Coverage{Since: time.Unix(1, 0), Last: time.Now()}, nil
}

func (l *randomLog) control(batch int, written time.Time, c change.Control) {
	c.Epoch, c.Batch, c.TimeMs = 1, uint64(batch), written.UnixMilli()
	l.controls = append(l.controls, c)
}

func newRandomLog(random *rand.Rand) *randomLog {
	log := &randomLog{skew: time.Duration(random.IntN(3)-1) * 2 * time.Second}
	n := 1 + random.IntN(60)
	seen := time.Now().Add(-40 * 24 * time.Hour)
	step := time.Since(seen) / time.Duration(n)
	if random.IntN(2) == 0 {
		step = time.Duration(1+random.IntN(600)) * time.Second
		seen = time.Now().Add(-time.Duration(n) * step)
	}
	for i := range n {
		seen = seen.Add(step)
		happened := seen
		body := func(version int) []byte {
			label := `"app":"web"`
			if (version+i)%3 == 0 {
				label = ""
			}
			return fmt.Appendf(nil, `{"metadata":{"labels":{%s},"resourceVersion":"%d"}}`, label, version)
		}
		c := sinks.Logged{Batch: uint64(i + 1), Logged: seen.Add(log.skew), Change: change.Change{Stream: change.ParseStream("configmaps"), Op: change.Update,
			Namespace: "shop", Name: fmt.Sprint("app-", i), UID: fmt.Sprint("u-", i), ResourceVersion: change.VersionOf(uint64(2*i + 2)), Time: seen,
			Before: body(2*i + 1), After: body(2*i + 2)}}
		r := audit.Record{ID: fmt.Sprint(i), AuditID: fmt.Sprint(i), Resource: "configmaps", Namespace: "shop", Name: c.Name, UID: c.UID, Verb: "update",
			Code: 200, User: []string{"alice", "bot"}[random.IntN(2)], Effect: audit.Wrote, VersionBefore: change.VersionOf(uint64(2*i + 1))}
		if random.IntN(2) == 0 { // a deletion's event has no versions, so only its time tells
			c.Op, c.After, r.Verb, r.Effect, r.VersionBefore = change.Delete, nil, "delete", "", ""
		}
		switch how := random.IntN(4); {
		case i == 0: // the stream begins
		case how == 0:
			happened = seen.Add(-time.Duration(random.IntN(100)) * time.Hour)
			log.control(i+1, seen, change.BehindControl("configmaps", "", happened.Add(-time.Second), seen))
		case how == 1:
			happened = seen.Add(-time.Duration(random.Int64N(int64(step))))
			c.Gap = "configmaps:7"
			log.control(i+1, seen, change.GapControl("configmaps", c.ResourceVersion, change.Gap{ID: c.Gap, To: c.ResourceVersion, Complete: true}, ""))
		}
		log.control(i+1, seen, change.Control{Type: change.ControlBatch,
			BatchEnd: change.BatchEnd{Positions: []change.Position{{Stream: "configmaps", ResourceVersion: c.ResourceVersion, Time: seen}}}})
		r.Time, r.Answered, r.Received = happened, happened.Add(time.Millisecond), happened.Add(time.Second)
		log.past, log.requests = append(log.past, c), append(log.requests, r)
	}
	return log
}

// prune removes the batches of the first changes.
func (l *randomLog) prune(n int) {
	l.pruned = n
	for i := range l.past[:n] {
		l.past[i].Batch = 0
	}
}

// The last lines, and the lines since a time, are those that an answer from all of the log's records has.
func TestLastLinesAreThoseOfAllOfTheLog(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		log := newRandomLog(random)
		objects, c := &sinks.Objects{}, &cobra.Command{}
		objects.Selector = []string{"", "app=web"}[random.IntN(2)]
		last, user, where := 1+random.IntN(8), []string{"", "alice"}[random.IntN(2)], []string{"", `by == "alice"`, `by != "bot"`, `op == "d"`}[random.IntN(4)]
		asked := func() *tail {
			asked := &tail{changes: changes{printer: *printing(t, "json", "never"), user: user, where: where}, last: last}
			var err, wrong error
			asked.labelled, err = objects.Labelled()
			if where != "" {
				asked.filter, wrong = query.NewFilter(where)
			}
			if err != nil || wrong != nil {
				t.Fatal(err, wrong)
			}
			return asked
		}
		all := func(after *sinks.Cut) []line {
			complete := asked()
			var err error
			if complete.late, err = timeline.LateSince(t.Context(), log, time.Time{}); err == nil {
				err = complete.readRequests(t.Context(), c, log, objects, time.Time{})
			}
			lines, wrong := complete.lines(t.Context(), c, log, sinks.Query{After: after}, time.Time{})
			if err != nil || wrong != nil {
				t.Fatal(err, wrong)
			}
			return lines
		}
		texts := func(lines []line) (all []string) {
			for _, l := range lines {
				all = append(all, string(l.text))
			}
			return all
		}
		got, err := asked().newest(t.Context(), c, log, objects, sinks.Query{})
		if want := texts(all(nil)); err != nil || !slices.Equal(texts(got), want) {
			t.Fatalf("seed %d: the last %d of %d by %q where %q, with the labels %q, are\n%q, want\n%q; %v", seed, last, len(log.past), user, where, objects.Selector,
				texts(got), want, err)
		}
		since := log.past[random.IntN(len(log.past))].Logged.Add(-time.Second)
		before, _ := log.CutAt(t.Context(), since)
		want := texts(all(&before))
		if random.IntN(3) == 0 {
			log.prune(random.IntN(len(log.past)))
		}
		windowed := asked()
		windowed.begin.Time, windowed.incomplete = since, true
		c.SetErr(io.Discard)
		cut, err := windowed.start(t.Context(), c, log, nil)
		must(t, err)
		if _, _, err = windowed.cover(t.Context(), c, log, objects); err != nil {
			t.Fatal(err)
		}
		got, err = windowed.lines(t.Context(), c, log, sinks.Query{After: cut}, since)
		if err != nil || !slices.Equal(texts(got), want) {
			t.Fatalf("seed %d: the lines since %s of %d by %q where %q, with the labels %q, are\n%q, want\n%q; %v", seed, since, len(log.past), user, where,
				objects.Selector, texts(got), want, err)
		}
	}
}
