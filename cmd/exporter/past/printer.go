package past

import (
	"cmp"
	"encoding/json"
	"time"

	"kubecdc/change"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/query"
	"kubecdc/sinks"
)

// printer makes text of changes, in the order in which they are given to it.
type printer struct {
	out     *cli.Output
	colours *screen.Colours
	all     bool // what changes with every update, too
	titled  bool // each change has the name of its object
	bodies  bool // documents have the object before and after
	teller  query.Teller
}

// change makes the text of a change.
func (p *printer) change(l *sinks.Logged, by *query.Who) (plain.Own, error) {
	e, err := p.event(l, by)
	if err != nil {
		return "", err
	}
	return p.text(l, e)
}

// eventWithBodies is a change as tail has it in json and yaml.
type eventWithBodies struct {
	*query.Event
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// event returns what the format tells of a change; nil: it needs nothing. It is called for all changes in their order, since it remembers.
func (p *printer) event(l *sinks.Logged, by *query.Who) (*query.Event, error) {
	if p.out.Format == "name" || p.out.Format == "table" {
		return nil, nil
	}
	e, err := p.teller.Event(l)
	e.By = by
	return e, err
}

// text makes the text of a change and its event.
func (p *printer) text(l *sinks.Logged, e *query.Event) (plain.Own, error) {
	resource, object := change.ResourceOf(l.Stream.ID()).ID(), change.ObjectKey(l.Namespace, l.Name)
	logged := l.Logged.UTC().Format(time.RFC3339)
	switch {
	case p.out.Format == "name":
		return plain.Sprintf("%s/%s\n", resource, l.Name), nil
	case p.out.Format == "table":
		return p.row(logged, l.Op.Past(), l.ResourceVersion, resource, object), nil
	case p.out.Format == "wide":
		return p.row(logged, l.Op.Past(), l.ResourceVersion, resource, object, cmp.Or(e.By.Text(e.Managers), "-"),
			e.Time.Format(time.RFC3339), l.UID), nil
	case p.out.Format == "diff":
		return p.changelog(e)
	case p.bodies:
		return p.out.Document(&eventWithBodies{e, change.OrNull(l.Before), change.OrNull(l.After)})
	}
	return p.out.Document(e)
}

// row returns a row of the table: the first five columns, and with wide all. Other formats have none.
func (p *printer) row(columns ...any) plain.Own {
	const narrow = "%-20s  %-8s  %-12s  %-30s  %s"
	switch p.out.Format {
	case "table":
		return plain.Sprintf(narrow+"\n", columns[:5]...)
	case "wide":
		return plain.Sprintf(narrow+"  %s  %s  %s\n", columns...)
	}
	return ""
}

// changelog makes a title, and lines of what differs.
func (p *printer) changelog(e *query.Event) (plain.Own, error) {
	op, _ := change.ParseOp(e.Op)
	title := plain.Sprintf("%s  ", e.Time.Format(time.RFC3339))
	if p.titled {
		title += plain.Sprintf("%s %s  ", e.Resource, change.ObjectKey(e.Namespace, e.Name))
	}
	title += plain.Sprintf("%s  resourceVersion %s", op.Past(), e.ResourceVersion)
	if e.Gap != "" && e.TimeFrom == change.FromExporter {
		title += "  (seen then: nothing tells when it happened)"
	}
	if by := e.By.Text(e.Managers); by != "" {
		title += plain.Sprintf("  by %s", by)
	}
	if e.Inferred {
		title += plain.Sprintf("  (inferred: it was not seen as an event, and may stand for several changes of gap %s)", e.Gap)
	}
	text := plain.Own(p.colours.Title.Sprint(title)) + "\n"
	if e.Note != "" {
		text += plain.Sprintf("  %s\n", e.Note)
	}
	if e.Op != "u" || e.Before == nil || e.After == nil {
		return text, nil
	}
	lines, err := query.Lines(e.Before, e.After, p.all)
	return text + differences(p.colours, lines), err
}
