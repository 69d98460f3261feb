package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// whoVerdict counts answers.
type whoVerdict struct {
	*requesters
	arrived map[string]bool
	records map[string]*audit.Record // by audit id

	grades     map[who.Grade]int // for changes whose events arrived
	bulk       map[who.Grade]int // the part of grades for changes by deletecollections
	lost       map[who.Grade]int // for changes whose events did not arrive
	causes     map[string]int    // for changes whose events arrived and that are not exact, without bulk
	wrong      map[bool]int      // probable answers with a wrong user, by whether the event arrived
	obscured   int               // changes whose author the test does not know
	complaints []string
}

func newVerdict(r *requesters, arrived map[string]bool) *whoVerdict {
	return &whoVerdict{requesters: r, arrived: arrived, records: map[string]*audit.Record{}, grades: map[who.Grade]int{}, bulk: map[who.Grade]int{},
		lost: map[who.Grade]int{}, causes: map[string]int{}, wrong: map[bool]int{}}
}

// add judges the answer for a change.
func (v *whoVerdict) add(l *sinks.Logged, w *who.Who) {
	id, user := v.truth(l)
	what := fmt.Sprintf("%s %s %s/%s %s", l.Op, l.Stream.ID(), l.Namespace, l.Name, l.ResourceVersion)
	if id == "" && v.obscure(l) {
		v.obscured++
		return
	}
	if id == "" {
		v.complain("%s: nobody of the test did it\n%s\n%s", what, l.Before, l.After)
		return
	}
	came := v.arrived[id]
	bulk := v.requesters.bulk[id] || strings.HasPrefix(id, remover)
	switch {
	case !came:
		v.lost[w.Grade]++
	case bulk:
		v.bulk[w.Grade]++
		fallthrough
	default:
		v.grades[w.Grade]++
	}
	if came && !bulk && w.Grade != who.Exact {
		v.causes[v.cause(id, w)]++
	}
	if asked := v.deleted[l.UID]; l.Op == change.Delete && deleting(l.Before) && v.arrived[asked] && w.AskedBy != nil && w.AskedBy.Grade == who.Exact &&
		!w.Is(v.users[asked]) {
		v.complain("%s was requested by %s (%s), and not by %s", what, v.users[asked], asked, w.AskedBy.Text(nil))
	}
	text := (&who.Who{Grade: w.Grade, User: w.User, Impersonated: w.Impersonated, Users: w.Users}).Text(nil)
	named := text == user
	ours := v.users[id] != "" // a controller's requests have ids that the test does not know
	unnamed := came && (w.Grade == who.Unknown || w.Grade == who.Manager)
	if r := v.records[id]; unnamed && (r != nil && r.Retried || l.Inferred) {
		unnamed = false // the policy does not annotate each attempt, and an inferred change may have several authors
	}
	switch {
	case w.Grade == who.Exact && !named, w.Grade == who.OneOf && came && !slices.Contains(w.Users, user),
		unnamed, w.Grade == who.Exact && ours && !slices.Contains(w.AuditIDs, id):
		v.complain("%s is by %s (%s, arrived: %v): %s, %s %v%s", what, user, id, came, text, w.Grade, w.AuditIDs, v.evidence(l))
	case w.Grade == who.Probable && text != "probably "+user:
		v.wrong[came]++
	}
}

// evidence returns a change, and the audit records of its object.
func (v *whoVerdict) evidence(l *sinks.Logged) string {
	text := fmt.Sprintf("\n\tseen %s, gap %q, inferred %v, managers %v at %s, uid %s\n\tfrom %s\n\tto   %s", l.Time, l.Gap, l.Inferred, l.Provenance.ManagerNames(),
		l.Provenance.Time, l.UID, l.Before, l.After)
	for _, id := range slices.SortedFunc(maps.Keys(v.records), func(a, b string) int { return v.records[a].Time.Compare(v.records[b].Time) }) {
		if r := v.records[id]; r.Name == l.Name && r.Namespace == l.Namespace && r.Resource == change.ResourceOf(l.Stream.ID()).ID() {
			text += fmt.Sprintf("\n\t%s %s to %s: %s %s %s %s, code %d, %q from %s (began %s) to %s, uid %s, created %v, retried %v", r.AuditID,
				r.Time.Format("15:04:05.000"), r.Answered.Format("15:04:05.000"), r.User, r.Impersonated, r.Verb, r.Subresource, r.Code, r.Effect,
				r.VersionBefore, r.VersionBegan, r.VersionAfter, r.UID, r.Created, r.Retried)
		}
	}
	return text
}

func (v *whoVerdict) complain(format string, args ...any) {
	v.complaints = append(v.complaints, fmt.Sprintf(format, args...))
}

// cause returns why the event of a request does not make its change exact.
func (v *whoVerdict) cause(id string, w *who.Who) string {
	r := v.records[id]
	switch {
	case r == nil:
		return fmt.Sprintf("a controller's, %s", w.Grade)
	case r.Retried:
		return fmt.Sprintf("the API server tried it again, %s", w.Grade)
	case r.VersionBefore == "" && !r.Created && r.VersionAfter == "":
		return fmt.Sprintf("its event has no version (%s %s), %s", r.Verb, r.Subresource, w.Grade)
	}
	return fmt.Sprintf("its event has the effect %q (%s %s), %s", r.Effect, r.Verb, r.Subresource, w.Grade)
}

// share returns the share of exact answers, and the number of all.
func share(grades map[who.Grade]int, without map[who.Grade]int) (exact float64, all int) {
	for grade, n := range grades {
		all += n - without[grade]
	}
	return float64(grades[who.Exact]-without[who.Exact]) / float64(max(1, all)), all
}

// report logs the counts. It fails the test if an answer is wrong, or if fewer than least are exact.
func (v *whoVerdict) report(t *testing.T, least float64) {
	t.Helper()
	exact, all := share(v.grades, nil)
	withoutBulk, some := share(v.grades, v.bulk)
	t.Logf("%d requests; of %d changes whose events arrived %.1f%% are exact: %v; without deletecollections %.1f%% of %d\ndeletecollections: %v, lost: %v, probable and wrong: %d, where the event was lost %d, obscure: %d",
		v.made, all, 100*exact, v.grades, 100*withoutBulk, some, v.bulk, v.lost, v.wrong[true], v.wrong[false], v.obscured)
	for _, cause := range slices.Sorted(maps.Keys(v.causes)) {
		t.Logf("  %4d: %s", v.causes[cause], cause)
	}
	for i, complaint := range v.complaints {
		if i < 20 {
			t.Error(complaint)
		}
	}
	if len(v.complaints) > 20 {
		t.Errorf("and %d more", len(v.complaints)-20)
	}
	if all == 0 || exact < least {
		t.Errorf("%.1f%% of %d changes are exact, want %.0f%%", 100*exact, all, 100*least)
	}
	limit := 5 + all/200 // a few are possible in the smallest run
	if v.hidden.setting == selectedWrites.setting {
		limit = 5 + all/25 // one of several equal patches moves the object out of the selection
	}
	if v.obscured > limit {
		t.Errorf("the test does not know who made %d of %d changes", v.obscured, all)
	}
}
