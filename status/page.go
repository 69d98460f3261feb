package status

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// Functions build the page, not html/template. In a program that executes templates the linker must retain every exported method,
// which makes it 10 MB larger.

//go:embed page.css
var css string

//go:embed page.js
var script string

// icon returns a dot in the colour of the state. Browsers request an icon in any case.
func icon(healthy bool) string {
	fill := "%23b3261e"
	if healthy {
		fill = "%23157347"
	}
	return "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><circle cx='8' cy='8' r='7' fill='" +
		fill + "'/></svg>"
}

// refreshSeconds is how often a browser without JavaScript loads the page again.
const refreshSeconds = "10"

func (s *Status) writePage(w io.Writer) error {
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")), h.TitleEl(g.Text(title(s))),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")),
			h.Link(h.Rel("icon"), h.Href(icon(s.Healthy))),
			h.NoScript(h.Meta(g.Attr("http-equiv", "refresh"), h.Content(refreshSeconds))),
			h.StyleEl(g.Raw(css)),
		),
		h.Body(
			h.A(h.Class("skip"), h.Href("#streams"), g.Text("Skip to the streams")),
			h.Header(
				h.P(h.Class("name"), h.Strong(g.Text("kubecdc")), g.Text(" exporter "),
					h.Span(h.Class("cluster"), g.Text(s.Cluster))),
				h.Div(h.ID("headline"), h.Role("status"), h.Aria("live", "polite"), s.headline()),
				h.P(h.ID("now"), h.Class("quiet"), g.Text("As of "), h.Span(h.ID("asof")),
					h.Span(h.ID("live"), h.Aria("live", "polite"))),
			),
			h.Main(
				h.Div(h.ID("problems"), s.problems()),
				h.Div(h.ID("past"), s.past()),
				h.Div(h.ID("facts"), s.facts()),
				s.streamsSection(),
				h.Section(h.Aria("labelledby", "slots-title"), h.H2(h.ID("slots-title"), g.Text("Slots and their owners")),
					h.Div(h.ID("slots"), s.slots())),
				h.Div(h.ID("notes"), s.remarks()),
			),
			h.Footer(h.Nav(h.Aria("label", "Other pages"), links())),
			h.Script(g.Raw(script)),
		),
	)).Render(w)
}

func title(s *Status) string {
	if s.Healthy {
		return "✓ kubecdc " + s.Cluster
	}
	return fmt.Sprintf("✕ %d wrong: kubecdc %s", len(s.Problems), s.Cluster)
}

func links() g.Node {
	var all []g.Node
	for _, path := range []string{"/status.json", "/metrics", "/readyz", "/healthz"} {
		all = append(all, h.A(h.Href(path), g.Text(path)), g.Text(" "))
	}
	return g.Group(all)
}

// streamsSection has the filter, which is not replaced with the table.
func (s *Status) streamsSection() g.Node {
	return h.Section(h.Aria("labelledby", "streams"), h.H2(h.ID("streams"), h.TabIndex("-1"), g.Text("Streams")),
		h.Form(h.ID("filter"), h.Role("search"),
			h.Label(h.For("q"), g.Text("Filter by resource, namespace or state")),
			h.Input(h.ID("q"), h.Type("search"), h.AutoComplete("off"), g.Attr("spellcheck", "false")),
			h.Label(h.Class("check"), g.Text("only with a problem"),
				h.Input(h.ID("wrong"), h.Type("checkbox"))),
			h.Span(h.ID("shown"), h.Class("quiet"), h.Role("status")),
		),
		h.Div(h.ID("table"), s.streamTable()),
	)
}

// searched returns the text that the filter searches.
func (s *Stream) searched() string {
	return strings.ToLower(s.Resource + " " + s.Namespace + " " + string(s.State))
}
