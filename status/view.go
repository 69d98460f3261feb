package status

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"kubecdc/change"
	"kubecdc/internal/dependency"
)

// since shows when something happened. The browser shows its age, with the suffix.
func since(t time.Time, suffix string) g.Node {
	if t.IsZero() {
		return none("none yet")
	}
	return h.Time(h.DateTime(t.UTC().Format(time.RFC3339)), h.Data("suffix", suffix), h.Title(stamp(t)), g.Text(clock(t)))
}

// clock formats a time for the page without a script.
func clock(t time.Time) string {
	if t = t.UTC(); t.Format(time.DateOnly) == time.Now().UTC().Format(time.DateOnly) {
		return t.Format("15:04:05 UTC")
	}
	return stamp(t)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Age formats a duration in at most two units: 42 s, 3 min, 2 h 5 min, 4 d.
func Age(d time.Duration) string {
	s := int(max(d, 0).Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 86400:
		return units(s/3600, "h", s/60%60, "min")
	}
	return units(s/86400, "d", s/3600%24, "h")
}

func units(n int, unit string, rest int, smaller string) string {
	if rest == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %d %s", n, unit, rest, smaller)
}

func none(text string) g.Node { return h.Span(h.Class("none"), g.Text(text)) }

// mark returns a sign and a word, since colour alone is not accessible.
func mark(good bool, text string) g.Node {
	sign, class := "✕", "bad"
	if good {
		sign, class = "✓", "good"
	}
	return h.Span(h.Class(class), h.Span(h.Aria("hidden", "true"), g.Text(sign+" ")), g.Text(text))
}

func (s *Status) headline() g.Node {
	if s.Healthy {
		return h.H1(h.Class("good"), h.Span(h.Aria("hidden", "true"), g.Text("✓ ")), g.Text("All is well"))
	}
	text := "1 thing is wrong"
	if n := len(s.Problems); n != 1 {
		text = fmt.Sprintf("%d things are wrong", n)
	}
	return h.H1(h.Class("bad"), h.Span(h.Aria("hidden", "true"), g.Text("✕ ")), g.Text(text))
}

// mostProblems is how many problems the page lists above the table. The table has the problems of all streams.
const mostProblems = 20

func (s *Status) problems() g.Node {
	if s.Healthy {
		return g.Group(nil)
	}
	var items []g.Node
	for i := range s.Problems[:min(len(s.Problems), mostProblems)] {
		p := &s.Problems[i]
		items = append(items, h.Li(h.Strong(g.Text(p.Component)), g.Text(": "+p.Text), g.Iff(!p.Since.IsZero(), func() g.Node {
			return h.Span(h.Class("quiet"), g.Text(" – for "), since(p.Since, ""))
		}), h.Small(g.If(p.Count > 1, g.Text(p.streamNames()+". ")), g.Text(upperFirst(p.Help)+": see "), h.Code(g.Text(p.See)))))
	}
	if more := len(s.Problems) - mostProblems; more > 0 {
		items = append(items, h.Li(g.Textf("and %d more: the table shows streams with a problem first", more)))
	}
	return h.Section(h.Class("wrong"), h.Aria("labelledby", "wrong-title"), h.H2(h.ID("wrong-title"), g.Text("What is wrong")),
		h.Ul(items...))
}

// streamNames returns the names of the streams with a problem.
func (p *Problem) streamNames() string {
	text := fmt.Sprintf("%d streams: %s", p.Count, strings.Join(p.Names, ", "))
	if more := p.Count - len(p.Names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (s *Status) past() g.Node {
	if len(s.Past) == 0 {
		return g.Group(nil)
	}
	return h.Details(h.Summary(g.Textf("What was wrong before (%d)", len(s.Past))), h.Ul(g.Map(s.Past, func(p Problem) g.Node {
		return h.Li(h.Strong(g.Text(p.Component)), g.Text(": "+p.Text),
			h.Span(h.Class("quiet"), g.Textf(" – for %s, until ", Age(p.Until.Sub(p.Since))), since(p.Until, " ago"),
				g.If(p.Count > 1, g.Textf(", %d streams", p.Count))))
	})))
}

// facts are the few most important numbers.
func (s *Status) facts() g.Node {
	fact := func(name string, value ...g.Node) g.Node { return h.Div(h.Dt(g.Text(name)), h.Dd(value...)) }
	all := []g.Node{fact("Streams in order", g.Textf("%d of %d", s.inOrder(), len(s.Streams)))}
	if rate, known := s.rate(); known {
		all = append(all, fact("Changes", g.Text(perSecond(rate))))
	}
	held := 0
	for _, v := range s.Slots {
		if v.Held {
			held++
		}
	}
	all = append(all, fact("Slots with an owner", g.Textf("%d of %d", held, len(s.Slots))))
	if s.Log != nil {
		all = append(all, fact("Log", g.Text(used(s.Log))))
	}
	for _, v := range s.Servers {
		title, state := upperFirst(v.Name), mark(v.Up, "up for ")
		if v.Name == dependency.APIServer {
			title = "API server"
		}
		if !v.Up {
			state = mark(false, "down for ")
		}
		all = append(all, fact(title, state, since(v.Since, ""), g.If(v.Address != "", h.Small(g.Text(v.Address)))))
	}
	if p := s.Process; p != nil {
		ready := mark(p.Ready, "ready")
		if !p.Ready {
			ready = mark(false, "not ready")
		}
		all = append(all, fact("This process", ready, g.Text(", up for "), since(p.Started, ""),
			h.Small(g.Text(p.Version), g.If(p.Replicas > 1, g.Textf(", one of %d replicas", p.Replicas)))))
	}
	return h.Dl(all...)
}

func upperFirst(text string) string { return string(text[0]-'a'+'A') + text[1:] }

func (s *Status) inOrder() (n int) {
	for i := range s.Streams {
		if s.Streams[i].Problem == "" {
			n++
		}
	}
	return n
}

func (s *Status) rate() (sum float64, known bool) {
	for _, v := range s.Streams {
		if v.Rate != nil {
			sum, known = sum+*v.Rate, true
		}
	}
	return sum, known
}

func perSecond(rate float64) string {
	switch {
	case rate < 0.01:
		return "0/s"
	case rate < 10:
		return strconv.FormatFloat(rate, 'g', 2, 64) + "/s"
	}
	return humanize.Comma(int64(math.Round(rate))) + "/s"
}

// table sets ARIA roles, since style sheets for narrow screens remove the roles of table elements.
func table(caption string, columns []string, rows []g.Node) g.Node {
	var heads []g.Node
	for _, c := range columns {
		heads = append(heads, h.Th(h.Scope("col"), h.Role("columnheader"), g.Text(c)))
	}
	return h.Table(h.Role("table"), h.Caption(h.Class("hidden"), g.Text(caption)),
		h.THead(h.Role("rowgroup"), h.Tr(h.Role("row"), g.Group(heads))), h.TBody(h.Role("rowgroup"), g.Group(rows)))
}

func cell(label string, content ...g.Node) g.Node {
	return h.Td(h.Role("cell"), h.Data("label", label), h.Div(content...))
}

func (s *Status) streamTable() g.Node {
	columns := []string{"Stream", "State", "Complete up to", "Lag", "Changes", "Last gap", "Last proof", "Slot"}
	var rows []g.Node
	for i := range s.Streams {
		rows = append(rows, s.Streams[i].row(columns))
	}
	if len(rows) == 0 {
		return h.P(none("There is no stream yet."))
	}
	return table("Streams, those with a problem first", columns, rows)
}

func (s *Stream) row(columns []string) g.Node {
	class := ""
	if s.Problem != "" {
		class = "wrong"
	}
	where := "all namespaces"
	if s.Namespace != "" {
		where = s.Namespace
	}
	if s.Selectors {
		where += ", by selectors"
	}
	rate := none("not known")
	if s.Rate != nil {
		rate = g.Text(perSecond(*s.Rate))
	}
	position := none("nothing yet")
	if s.Position != "" {
		position = h.Code(g.Text(string(s.Position)))
	}
	return h.Tr(h.Role("row"), h.Class(class), h.Data("search", s.searched()), g.If(s.Problem != "", h.Data("wrong", "")),
		h.Th(h.Role("rowheader"), h.Scope("row"), h.Strong(breakable(s.Resource)), h.Small(g.Text(where))),
		cell(columns[1], mark(s.Problem == "", string(s.State)),
			g.Iff(s.Problem != "", func() g.Node { return h.Small(g.Text(s.Problem)) })),
		cell(columns[2], position),
		cell(columns[3], since(s.Confirmed, "")),
		cell(columns[4], rate),
		cell(columns[5], s.Gap.cell()),
		cell(columns[6], s.Proof.cell()),
		cell(columns[7], g.Text(strconv.Itoa(s.Slot))),
	)
}

// breakable permits a line break after each dot of a long name.
func breakable(name string) g.Node {
	parts := strings.SplitAfter(name, ".")
	return g.Group{g.Text(parts[0]), g.Map(parts[1:], func(part string) g.Node { return g.Group{h.Wbr(), g.Text(part)} })}
}

func (gap *Gap) cell() g.Node {
	switch {
	case gap == nil:
		return none("none")
	case gap.Complete:
		return g.Group{mark(true, "complete, "), since(gap.Time, " ago"), h.Small(g.Text(recovered(gap)))}
	}
	return g.Group{mark(false, "incomplete, "), since(gap.Time, " ago"), h.Small(g.Text(gap.Reason))}
}

func recovered(gap *Gap) string {
	switch gap.Recovered {
	case 0:
		return "nothing had changed"
	case 1:
		return "1 change recovered"
	}
	return humanize.Comma(int64(gap.Recovered)) + " changes recovered"
}

func (p *Proof) cell() g.Node {
	switch {
	case p == nil:
		return none("none yet")
	case p.Result == change.ProofUnsupported:
		return g.Group{none("not possible, "), since(p.Time, " ago")}
	case p.Result == change.ProofEqual:
		return g.Group{mark(true, "equal, "), since(p.Time, " ago"),
			h.Small(g.Textf("%s objects", humanize.Comma(int64(p.Objects))))}
	}
	return g.Group{mark(false, fmt.Sprintf("%d differ, ", p.Differences)), since(p.Time, " ago")}
}

func (s *Status) slots() g.Node {
	columns := []string{"Slot", "Owner", "Streams", "Epoch", "Last batch", "Last checkpoint"}
	var rows []g.Node
	for i := range s.Slots {
		v := &s.Slots[i]
		owner := mark(v.Held, v.Owner)
		switch {
		case !v.Held && v.Owner == "":
			owner = mark(false, "nobody")
		case !v.Held:
			owner = mark(false, "nobody; the last one was "+v.Owner)
		}
		rows = append(rows, h.Tr(h.Role("row"), h.Th(h.Role("rowheader"), h.Scope("row"), g.Text(strconv.Itoa(v.Number))),
			cell(columns[1], owner, g.If(v.Mine, h.Small(g.Text("this process")))),
			cell(columns[2], g.Text(strconv.Itoa(v.Streams))),
			cell(columns[3], g.Textf("%d", v.Epoch)), cell(columns[4], g.Textf("%d", v.Batch)),
			cell(columns[5], since(v.Checkpoint, " ago"))))
	}
	if len(rows) == 0 {
		return h.P(none("No slot is known yet."))
	}
	return table("Slots and their owners", columns, rows)
}

func (s *Status) remarks() g.Node {
	return g.Map(s.Notes, func(text string) g.Node { return h.P(h.Class("quiet"), g.Text(text)) })
}
