package page

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// field is a parameter of a question that a form has.
type field struct{ name, label, hint string }

var (
	placeFields = []field{{"type", "Types", "deploy,po"}, {"namespace", "Namespace", "all"}, {"name", "Name", "any"},
		{"selector", "Labels", "app=web"}}
	spanFields   = []field{{"since", "Since", "1h"}, {"until", "Until", "now"}, {"by", "By", "anybody"}}
	momentFields = []field{{"from", "From", "2h"}, {"to", "To", "now"}}
)

// spans are the times that one click selects.
var spans = []string{"15m", "1h", "6h", "24h", "7d"}

// form asks another question of the same kind.
func (v *view) form() g.Node {
	fields, presets := placeFields, g.Group(nil)
	switch {
	case v.get("from") != "":
		fields = append(momentFields[:2:2], fields...)
	case v.moment != "":
	case v.get("at") != "":
		fields = append([]field{{"at", "At", "2h"}}, fields...)
	default:
		fields = append(spanFields[:2:2], append(fields[:4:4], spanFields[2])...)
		for _, span := range spans {
			presets = append(presets, v.link(span, "", "since", span, "until", ""), g.Text(" "))
		}
	}
	var all g.Group
	for _, f := range fields {
		all = append(all, h.Label(g.Text(f.label), h.Input(h.Name(f.name), h.Value(v.get(f.name)), h.Placeholder(f.hint),
			h.AutoComplete("off"), g.Attr("spellcheck", "false"))))
	}
	return g.Group{h.Form(h.Method("get"), h.Role("search"), all, h.Button(h.Type("submit"), g.Text("Ask"))),
		g.If(presets != nil, h.P(h.Class("presets"), g.Text("Last "), presets))}
}
