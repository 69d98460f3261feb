package page

import (
	"fmt"
	"slices"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"kubecdc/answer"
	"kubecdc/query/timeline"
)

// buckets is how many bars the density has.
const buckets = 96

// axis maps times to places from 0 to width.
type axis struct{ from, until time.Time }

const width, height = 960, 72

func axisOf(found *answer.Changes) (a axis, err error) {
	a.from = found.Since.Truncate(time.Second)
	a.until, err = time.Parse(time.RFC3339, found.Until)
	if a.until = a.until.Add(time.Second); !a.until.After(a.from) { // the answer names whole seconds
		a.until = a.from.Add(time.Second)
	}
	return a, err
}

func (a axis) x(t time.Time) float64 {
	x := width * float64(t.Sub(a.from)) / float64(a.until.Sub(a.from))
	return min(max(x, 0), width)
}

func (a axis) time(x float64) time.Time {
	return a.from.Add(time.Duration(float64(a.until.Sub(a.from)) * x / width))
}

func svg(class, role, label string, height int, children ...g.Node) g.Node {
	return g.El("svg", h.Class(class), g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", width, height)),
		g.Attr("preserveAspectRatio", "none"), h.Role(role), h.Aria("label", label), g.Group(children))
}

func rect(class string, x, y, w, height float64, title string) g.Node {
	return g.El("rect", h.Class(class), number("x", x), number("y", y), number("width", w), number("height", height),
		g.El("title", text(title)))
}

func number(name string, n float64) g.Node { return g.Attr(name, fmt.Sprintf("%.1f", n)) }

// density shows how many changes there were at which time. Where the log lacks something it shows that, and never only that
// there was nothing. Each bar leads to its time.
func (v *view) density(a axis, found *answer.Changes) g.Node {
	most := 1
	for _, b := range found.Density {
		most = max(most, b.Created+b.Updated+b.Deleted)
	}
	var bars g.Group
	for i := range found.Density {
		bars = append(bars, v.bar(a, i, &found.Density[i], most, found.Unknown))
	}
	marks, legend := unknown(a, found.Unknown)
	pattern := g.Raw(`<defs><pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
		`<rect class="hatch" width="3" height="8"></rect></pattern></defs>`)
	return h.Section(h.Aria("label", "Changes by time"), svg("density", "group", "Changes by time", height, pattern, bars, marks),
		h.P(h.Class("axis"), stamp(a.from.UTC().Format(time.RFC3339)), stamp(a.time(width/2).UTC().Format(time.RFC3339)),
			stamp(found.Until)),
		h.Ul(h.Class("legend"), legend))
}

// bar is the changes of a bucket.
func (v *view) bar(a axis, i int, b *answer.Bucket, most int, spans []answer.Unknown) g.Node {
	x, w, y := float64(i)*width/buckets, float64(width)/buckets, float64(height)
	from, until := a.time(x), a.time(x+w)
	title := fmt.Sprintf("%s to %s: %d created, %d updated, %d deleted", clock(from), clock(until), b.Created, b.Updated,
		b.Deleted)
	if b.Recovered > 0 {
		title += fmt.Sprintf("; %d of them were recovered or inferred after a gap", b.Recovered)
	}
	if slices.ContainsFunc(spans, func(u answer.Unknown) bool {
		return u.Kind == timeline.SpanMissing && u.From.Before(until) && u.To.After(from)
	}) {
		title += "; " + kindTexts[timeline.SpanMissing] // zero is no proof here
	}
	bar := g.Group{rect("all", x, 0, w, height, title)}
	for _, part := range []struct {
		class string
		n     int
	}{{"updated", b.Updated}, {"created", b.Created}, {"deleted", b.Deleted}} {
		if part.n > 0 {
			tall := max(2, float64(height)*float64(part.n)/float64(most))
			y -= tall
			bar = append(bar, rect(part.class, x+.5, y, w-1, tall, title))
		}
	}
	if b.Recovered > 0 {
		bar = append(bar, rect("recovered", x, float64(height)-4, w, 4, title))
	}
	end := ceil(until)
	if i == buckets-1 {
		end = v.get("until") // a time in the future is refused
	}
	return g.El("a", h.Href(v.address("", "since", from.UTC().Format(time.RFC3339), "until", end)), h.Aria("label", title), bar)
}

// unknown shows the times of which the log lacks something, and what all colours mean.
func unknown(a axis, spans []answer.Unknown) (marks, legend g.Group) {
	for _, op := range []string{"created", "updated", "deleted"} {
		legend = append(legend, h.Li(h.Span(h.Class("key "+op)), g.Text(op)))
	}
	shown := map[timeline.SpanKind]bool{}
	for _, u := range spans {
		x, tall := a.x(u.From), 5.0
		title := fmt.Sprintf("%s: %s between %s and %s", u.Stream, kindTexts[u.Kind], clock(u.From), clock(u.To))
		if u.Reason != "" {
			title += ": " + u.Reason
		}
		if u.Kind == timeline.SpanMissing {
			tall = height
		}
		marks = append(marks, rect("span "+string(u.Kind), x, 0, max(a.x(u.To)-x, 3), tall, title))
		if !shown[u.Kind] {
			shown[u.Kind] = true
			legend = append(legend, h.Li(h.Span(h.Class("key "+string(u.Kind))), g.Text(kindTexts[u.Kind])))
		}
	}
	return marks, legend
}

// kindTexts say what a span is.
var kindTexts = map[timeline.SpanKind]string{timeline.SpanMissing: "changes may be missing",
	timeline.SpanLate: "changes were seen late", timeline.SpanUnread: "nobody read it, and it caught up"}

func clock(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// ceil is the first second that is not before t.
func ceil(t time.Time) string { return t.Add(time.Second - time.Nanosecond).UTC().Format(time.RFC3339) }
