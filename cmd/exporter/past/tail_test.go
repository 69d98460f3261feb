package past

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/internal/plain"
	"kubecdc/sinks"
)

// tail also accepts -n like tail(1).
func TestTailTakesLinesAndNamespaces(t *testing.T) {
	for line, want := range map[string]string{"-n 20": " 20", "-n shop": "shop 0", "-n shop -n 20": "shop 20", "--lines 5 -n a1": "a1 5", "-n -3": "write a number"} {
		c := NewTail()
		if err := c.ParseFlags(strings.Fields(line)); err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", line, err)
			}
			continue
		}
		set := c.Flags().Lookup("namespace").Value.(namespaceOrLines)
		if got := fmt.Sprint(set.Namespace, " ", set.last); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// A tail retains only the last changes, in the order in which they were logged. Within a batch it retains the last ones.
func TestTheLastLinesOfMany(t *testing.T) {
	most := lines{most: 20}
	for i := range 100_000 {
		l := updated("pods", fmt.Sprint("p-", i%70_000), "", "")
		l.Logged = time.Unix(int64(i/1000), 0)
		if i == 99_999 { // a clock that steps back does not move a change before an earlier one of its object
			l.Name, l.Logged = "p-29998", time.Unix(0, 0)
		}
		if now, wanted := most.newLine(l, l.Logged); wanted {
			now.text = plain.Own(l.Name)
			most.add(now)
		}
		if len(most.all) > 200 || len(most.last) > 200 {
			t.Fatalf("%d lines are retained", len(most.all))
		}
	}
	all := most.sorted()
	if len(all) != 20 || all[0].text != "p-29980" || all[19].text != "p-29998" {
		t.Errorf("%d lines from %s to %s", len(all), all[0].text, all[len(all)-1].text)
	}
}

// longLog is a log of a change each half hour. A test fails if it reads all control records or audit events.
type longLog struct {
	livesLog
	t     *testing.T
	begun time.Time
}

func (l longLog) CutAt(_ context.Context, logged time.Time) (sinks.Cut, error) {
	return sinks.Cut{Batches: map[int]uint64{0: uint64(logged.Sub(l.begun) / (30 * time.Minute))}}, nil
}

func (l longLog) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	return l.livesLog.Changes(ctx, q, func(c *sinks.Logged) error {
		if !q.After.Has(c) {
			return visit(c)
		}
		return nil
	})
}

func (l longLog) Controls(_ context.Context, since time.Time, _ func(*sinks.Span) bool, visit func(*change.Control) error) error {
	l.isRecent(since)
	behind := change.BehindControl("configmaps", "", since.Add(-time.Millisecond), time.Now())
	return visit(&behind)
}

func (l longLog) Audits(_ context.Context, q audit.Query, _ func(*audit.Record) error) (audit.Coverage, error) {
	l.isRecent(q.Since)
	return audit.Coverage{}, nil
}

func (l longLog) isRecent(since time.Time) {
	if time.Since(since) > 72*time.Hour {
		l.t.Errorf("the log is read since %s", since)
	}
}

// The last changes are found without reading all of the log. They say that they were read late.
func TestTheLastLinesOfALongLog(t *testing.T) {
	begun := time.Now().Add(-30 * 24 * time.Hour)
	log := longLog{t: t, begun: begun}
	for n := range 30 * 48 {
		logged := begun.Add(time.Duration(n) * 30 * time.Minute)
		log.past = append(log.past, sinks.Logged{Batch: uint64(n + 1), Logged: logged, Change: change.Change{Stream: change.ParseStream("configmaps"),
			Op: change.Update, Namespace: "shop", Name: "app", UID: "u", ResourceVersion: change.VersionOf(uint64(n + 1)), Time: logged}})
	}
	tail := &tail{changes: changes{printer: *printing(t, "json", "never")}, last: 20}
	tail.labelled, _ = new(sinks.Objects).Labelled()
	past, err := tail.newest(t.Context(), &cobra.Command{}, log, &sinks.Objects{}, sinks.Query{})
	if err != nil || len(past) != 20 {
		t.Fatalf("%d lines, %v", len(past), err)
	}
	for i, l := range past {
		if version := fmt.Sprintf(`"resourceVersion":"%d"`, 30*48-19+i); !strings.Contains(string(l.text), version) || !strings.Contains(string(l.text), `"late":true`) {
			t.Errorf("line %d, want %s, and that it is late: %s", i, version, l.text)
		}
	}
}
