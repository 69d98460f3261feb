package past

import (
	"context"
	"strings"
	"testing"
	"time"

	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// The last line of an answer says in words how far it is complete.
func TestCompletenessInWords(t *testing.T) {
	now := time.Date(2026, 11, 26, 14, 0, 0, 0, time.Local)
	hour := func(h int) time.Time { return now.Add(time.Duration(h) * time.Hour) }
	for _, c := range []struct {
		want     string
		coverage []timeline.Coverage
		missing  []string
	}{
		{"complete since 12:00:00", []timeline.Coverage{{Stream: "pods", SinceTime: hour(-2)}, {Stream: "nodes", SinceTime: hour(-2)}}, nil},
		{"complete since 12:00:00; widgets.example.com since 13:00:00",
			[]timeline.Coverage{{Stream: "widgets.example.com", SinceTime: hour(-1)}, {Stream: "pods", SinceTime: hour(-2)}}, nil},
		{"complete since Nov 25 14:00:00; 2 of 3 resources since later, the last since 13:00:00",
			[]timeline.Coverage{{Stream: "a", SinceTime: hour(-1)}, {Stream: "b", SinceTime: hour(-2)}, {Stream: "c", SinceTime: hour(-24)}}, nil},
		{"⚠ changes of deploy between 12:00:00 and 13:00:00 may be missing: etcd was compacted",
			[]timeline.Coverage{{Stream: "deployments.apps", Gaps: []timeline.GapTime{{From: hour(-2), To: hour(-1), Reason: "etcd was compacted"}}}}, []string{"x"}},
		{"⚠ changes of deploy and 2 more resources between 11:00:00 and 13:00:00 may be missing: etcd was compacted; and 1 more: -o json names them on stderr",
			[]timeline.Coverage{
				{Stream: "deployments.apps", Gaps: []timeline.GapTime{{From: hour(-2), To: hour(-1), Reason: "etcd was compacted"}}},
				{Stream: "nodes", Gaps: []timeline.GapTime{{From: hour(-3), To: hour(-2), Reason: "etcd was compacted"}}},
				{Stream: "pods", Gaps: []timeline.GapTime{{From: hour(-2), To: hour(-1), Reason: "etcd was compacted"}}},
			}, []string{"x", "y", "z", "pods: no list"}},
		{"⚠ pods: no list; and 1 more: -o json names them on stderr", []timeline.Coverage{{Stream: "pods"}}, []string{"pods: no\n list", "y"}},
		{"complete since 12:00:00 until 13:00:00, where the log ends",
			[]timeline.Coverage{{Stream: "pods", SinceTime: hour(-2), End: hour(-1)}, {Stream: "nodes", SinceTime: hour(-2), End: hour(-1).Add(time.Second)}}, nil},
		{"complete since 12:00:00; nodes only until 13:00:00",
			[]timeline.Coverage{{Stream: "pods", SinceTime: hour(-2), End: now}, {Stream: "nodes", SinceTime: hour(-2), End: hour(-1)}}, nil},
		{"complete since 12:00:00", []timeline.Coverage{{Stream: "pods", SinceTime: hour(-2), End: now.Add(-2 * time.Minute)}}, nil},
		{"", []timeline.Coverage{{Stream: "pods", Unserved: true}}, nil},
	} {
		if got := completeness(c.coverage, c.missing, now, now); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// emptyLog has no changes.
type emptyLog struct{ sinks.Reader }

func (emptyLog) Changes(context.Context, sinks.Query, func(*sinks.Logged) error) error { return nil }

// While a first list runs, no answer says that an object does not exist.
func TestNothingIsFoundYet(t *testing.T) {
	objects := &sinks.Objects{Resources: []string{"pods"}, Names: []string{"pods/web"}}
	for unlisted, want := range map[bool]string{true: "no such change: the first list of pods has not ended yet", false: "no such change"} {
		err := notFound(t.Context(), emptyLog{}, objects, []timeline.Coverage{{Stream: "pods", Unlisted: unlisted}}, "no such change")
		if !strings.HasPrefix(err.Error(), want) || unlisted != strings.Contains(err.Error(), "has not ended") {
			t.Errorf("unlisted %v: %v", unlisted, err)
		}
	}
}
