package past

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/incident"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/internal/suggest"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// controlled are the types of objects that a type of objects controls.
var controlled = map[string][]string{
	"deployments.apps": {"replicasets.apps", "pods"}, "replicasets.apps": {"pods"}, "statefulsets.apps": {"pods"},
	"daemonsets.apps": {"pods"},
	"jobs.batch":      {"pods"}, "cronjobs.batch": {"jobs.batch", "pods"}, "replicationcontrollers": {"pods"}}

// incident returns the view of an incident, as lines of a terminal.
func (t *history) incident(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query) (all []line, err error) {
	b := &incident.Builder{User: t.user, AllFields: t.all, Stepwise: q.Name != ""}
	if err = t.read(ctx, c, r, q, t.addTo(b)); err != nil {
		return nil, err
	}
	if q.Name != "" && t.user == "" && r.FindsObjects() {
		b.Only()
		if err := t.addOwned(ctx, c, r, q, b); err != nil {
			return nil, err
		}
	}
	v, err := b.End(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, e := range v.Entries {
		all = append(all, line{text: t.happening(e, t.screen.Columns(), time.Now())})
	}
	if slices.ContainsFunc(v.Entries, func(e *incident.Entry) bool { return e.Fold != nil && !e.Fold.Listed }) {
		t.addRemark(c.ErrOrStderr(), "a line with … has several changes: --status shows each")
	}
	if text := unnamed(v.Unnamed); text != "" {
		t.addRemark(c.ErrOrStderr(), text)
	}
	return all, nil
}

// addTo returns a function that adds changes to a view.
func (t *history) addTo(b *incident.Builder) func(*sinks.Logged, *who.Who) error {
	return func(l *sinks.Logged, requester *who.Who) error {
		e, err := t.event(l, requester)
		if err != nil {
			return err
		}
		return b.Add(l, e)
	}
}

// addOwned adds the changes of what the object in question may control, as far as the log has it.
func (t *history) addOwned(ctx context.Context, c *cobra.Command, r sinks.Reader, q sinks.Query, b *incident.Builder) error {
	logged, err := r.Resources(ctx)
	children := slices.DeleteFunc(slices.Clone(controlled[strings.Join(q.Resources, ",")]),
		func(r string) bool { return !slices.Contains(logged, r) })
	if err != nil || len(children) == 0 {
		return err
	}
	own := *t // has what is known of these resources
	coverage, missing, err := own.cover(ctx, c, r, &sinks.Objects{Resources: children, Namespace: q.Namespace})
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		t.remarkMissing(c.ErrOrStderr(), coverage, missing)
	}
	owned, add := sinks.Query{Resources: children, Namespace: q.Namespace, After: q.After, To: q.To}, own.addTo(b)
	return r.Changes(ctx, owned, func(l *sinks.Logged) error { return add(l, own.requests.Who(l)) })
}

// happening returns the text of an entry.
func (p *printer) happening(e *incident.Entry, columns int, now time.Time) plain.Own {
	if e.Fold != nil {
		return folded(e.Fold, columns, p.colours, now) + "\n"
	}
	line := p.line(e.Event)
	if e.Cause != "" {
		line.Remarks = append(line.Remarks, e.Cause)
	}
	return line.Lines(columns, p.colours, now) + "\n" + p.flags.below(p.colours, e.Lines, columns)
}

// folded returns the line of several changes: "3 po of deploy/web -n shop  3 created, 2 Running → CrashLoopBackOff".
func folded(f *incident.Fold, columns int, colours *screen.Colours, now time.Time) plain.Own {
	var what string
	switch {
	case f.Listed:
		what = english.Plural(f.Objects, "object", "") + " found by first lists"
	case f.IsOther():
		what = english.Plural(f.Objects, "other object", "")
	case f.Name != "":
		what = screen.Object(f.Resource, f.Name)
	default:
		if what = fmt.Sprintf("%d %s", f.Objects, suggest.Short(f.Resource)); f.Owner != "" {
			what += " of " + f.Owner
		}
	}
	begun := screen.Clock(f.First, now) + " "
	if f.IsOther() {
		begun = strings.Repeat(" ", len(time.TimeOnly)+1) // they change all the time
	}
	parts := []screen.Part{{Text: begun, Paint: colours.Dim}, {Text: "… "}, {Text: what, Paint: colours.Title}}
	if f.Namespace != "" {
		parts = append(parts, screen.Part{Text: " -n " + f.Namespace, Paint: colours.Dim})
	}
	did := happened(f)
	for i, text := range did {
		if i < len(did)-1 {
			text += ", "
		}
		if i == 0 {
			text = "  " + text
		}
		parts = append(parts, screen.Part{Text: text})
	}
	if f.Author != "" {
		parts = append(parts, screen.Part{Text: "  by " + f.Author, Paint: colours.Dim})
	}
	return screen.Wrap(columns, len(time.TimeOnly)+3, parts...)
}

// happened says in words what several changes did.
func happened(f *incident.Fold) (all []string) {
	for _, n := range []struct {
		n    int
		what string
	}{{f.Created, "created"}, {f.Deleted, "deleted"}} {
		switch {
		case n.n > 0 && f.Name != "":
			all = append(all, n.what)
		case n.n > 0:
			all = append(all, fmt.Sprintf("%d %s", n.n, n.what))
		}
	}
	if all = append(all, f.Status...); f.Updates > 0 {
		all = append(all, english.Plural(f.Updates, "update", ""))
	}
	if f.IsOther() {
		all[0] += " of statuses and the like that kubectl get does not show"
	}
	if len(f.Fields) > 0 && f.Fields[0] != "" {
		all[len(all)-1] += " of " + strings.Join(f.Fields, ", ")
	}
	return all
}

// unnamed says which changes have no author.
func unnamed(changes map[change.Op]int) string {
	var all []string
	for _, op := range []change.Op{change.Create, change.Update, change.Delete} {
		if n := changes[op]; n > 0 {
			all = append(all, english.Plural(n, map[change.Op]string{change.Create: "creation", change.Update: "update",
				change.Delete: "deletion"}[op], ""))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "without a name: " + english.OxfordWordSeries(all, "and") + " (audit events tell who: docs/who.md)"
}
