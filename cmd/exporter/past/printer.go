package past

import (
	"cmp"
	"encoding/json"
	"time"

	"kubecdc/change"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/query"
	"kubecdc/query/difference"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// printer formats changes, which it gets in their order.
type printer struct {
	flags       *pastFlags
	colours     *screen.Colours
	all         bool // also show bookkeeping
	hasTitles   bool // each change names its object
	hasBodies   bool // documents have the object before and after
	showsLogged bool // on a terminal, show when the log got the change
	events      query.EventMaker
}

// change returns the text of a change.
func (p *printer) change(l *sinks.Logged, requester *who.Who) (plain.Own, error) {
	e, err := p.event(l, requester)
	if err != nil {
		return "", err
	}
	return p.text(l, e)
}

// eventWithBodies is a change in the json and yaml of tail.
type eventWithBodies struct {
	*query.Event
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// event returns the event of a change, or nil if the format does not need it. Call it for all changes in their order, since it
// remembers states.
func (p *printer) event(l *sinks.Logged, requester *who.Who) (*query.Event, error) {
	if p.flags.Format == "name" || p.flags.Format == "table" && p.flags.screen == nil {
		return nil, nil
	}
	e, err := p.events.Event(l)
	e.By = requester
	return e, err
}

// text returns the text of a change and its event.
func (p *printer) text(l *sinks.Logged, e *query.Event) (plain.Own, error) {
	resource, object := change.ResourceOf(l.Stream.ID()).ID(), change.ObjectKey(l.Namespace, l.Name)
	logged := l.Logged.UTC().Format(time.RFC3339)
	switch {
	case p.flags.screen != nil:
		return p.entry(e)
	case p.flags.Format == "name":
		return plain.Sprintf("%s/%s\n", resource, l.Name), nil
	case p.flags.Format == "table":
		return p.row(logged, l.Op.Past(), l.ResourceVersion, resource, object), nil
	case p.flags.Format == "wide":
		return p.row(logged, l.Op.Past(), l.ResourceVersion, resource, object, cmp.Or(e.By.Text(e.Managers), "-"),
			e.Time.Format(time.RFC3339), l.UID), nil
	case p.flags.Format == "diff":
		return p.changelog(e)
	case p.hasBodies:
		return p.flags.Document(&eventWithBodies{e, change.OrNull(l.Before), change.OrNull(l.After)})
	}
	return p.flags.Document(e)
}

// row returns a row of the table: the first five columns, or all with the format wide. It returns "" for other formats.
func (p *printer) row(columns ...any) plain.Own {
	const narrow = "%-20s  %-8s  %-12s  %-30s  %s"
	switch {
	case p.flags.screen != nil:
	case p.flags.Format == "table":
		return plain.Sprintf(narrow+"\n", columns[:5]...)
	case p.flags.Format == "wide":
		return plain.Sprintf(narrow+"  %s  %s  %s\n", columns...)
	}
	return ""
}

// changelog returns a title, and the lines that differ.
func (p *printer) changelog(e *query.Event) (plain.Own, error) {
	op, _ := change.ParseOp(e.Op)
	title := plain.Sprintf("%s  ", e.Time.Format(time.RFC3339))
	if p.hasTitles {
		title += plain.Sprintf("%s %s  ", e.Resource, change.ObjectKey(e.Namespace, e.Name))
	}
	title += plain.Sprintf("%s  resourceVersion %s", op.Past(), e.ResourceVersion)
	if e.Late {
		title += "  (seen then; it may have happened earlier)"
	}
	if text := e.By.Text(e.Managers); text != "" {
		title += plain.Sprintf("  by %s", text)
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
	lines, err := difference.Lines(e.Before, e.After, p.all)
	return text + differences(p.colours, lines, unlimited), err
}

// entry returns the text of a change for a terminal: one line in a table, or a line with the differences below it.
func (p *printer) entry(e *query.Event) (plain.Own, error) {
	var lines []difference.Line
	var err error
	if e.Op == "u" && e.Before != nil && e.After != nil {
		lines, err = difference.Lines(e.Before, e.After, p.all)
	}
	line := p.line(e)
	if p.flags.Format == "table" {
		line.What = difference.InWords(lines)
		return line.Line(p.flags.screen.Columns(), p.colours, time.Now()) + "\n", err
	}
	return line.Lines(p.flags.screen.Columns(), p.colours, time.Now()) + "\n" +
		p.flags.below(p.colours, lines, p.flags.screen.Columns()), err
}

// line returns the line of a change, without what differs.
func (p *printer) line(e *query.Event) screen.Change {
	op, _ := change.ParseOp(e.Op)
	line := screen.Change{Time: e.Time, Op: op, Resource: e.Resource, Namespace: e.Namespace, Name: e.Name,
		Author: e.By.Text(e.Managers)}
	if p.showsLogged {
		line.Time = e.Logged
	}
	if op == change.Read {
		line.Remarks = append(line.Remarks, "listed")
	}
	if e.Late {
		line.Remarks = append(line.Remarks, "seen then; it may have happened earlier")
	}
	if e.Inferred {
		line.Remarks = append(line.Remarks, "inferred: it may stand for several changes")
	}
	if e.Note != "" {
		line.Remarks = append(line.Remarks, e.Note)
	}
	return line
}
