package page

import (
	"context"
	"encoding/json"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"kubecdc/answer"
)

// state shows objects at a moment.
func (v *view) state(ctx context.Context) (g.Node, error) {
	if v.get("type") == "" {
		return v.types(ctx)
	}
	asked := v.momentOf()
	if asked == "now" {
		asked = ""
	}
	found, err := v.log.StateAt(ctx, &answer.AsOf{Place: v.place(), At: asked, Page: v.page()})
	if err != nil {
		return nil, err
	}
	var rows g.Group
	for i := range found.Objects {
		o := &found.Objects[i]
		body, err := json.MarshalIndent(o.Data, "", "  ")
		if err != nil {
			return nil, err
		}
		rows = append(rows, h.Tr(h.Td(text(o.Namespace)),
			h.Th(h.Scope("row"), v.link(o.Name, "", "type", o.Resource, "namespace", o.Namespace, "name", o.Name, "at", "")),
			h.Td(text(o.Resource)), h.Td(text(o.Version)), h.Td(h.Details(g.If(len(found.Objects) == 1, g.Attr("open")),
				h.Summary(g.Text("Show")), h.Pre(block(string(body)))), text(o.Note))))
	}
	head := h.THead(h.Tr(g.Map([]string{"Namespace", "Name", "Type", "Version", "Object"},
		func(t string) g.Node { return h.Th(h.Scope("col"), g.Text(t)) })))
	words := append([]string{"exporter", "kubectl", "--at", found.At, "--", "get"}, v.selected()...)
	return g.Group{v.form(), conclusion(found.Conclusion, &found.Complete), h.Table(head, h.TBody(rows)), v.more(found.Cursor),
		h.P(v.link("What has changed since?", "", "from", found.At, "to", "now", "at", "")), v.command(words...)}, nil
}

// block is a text of several lines.
func block(s string) g.Node {
	return g.Map(strings.SplitAfter(s, "\n"), func(line string) g.Node {
		return g.Group{text(strings.TrimSuffix(line, "\n")), g.Text("\n")}
	})
}

// types lists the resources that the log has, with what it lacks of each.
func (v *view) types(ctx context.Context) (g.Node, error) {
	found, err := v.log.Coverage(ctx, &answer.Covered{Namespace: v.get("namespace")})
	if err != nil {
		return nil, err
	}
	var rows g.Group
	for i := range found.Resources {
		r := &found.Resources[i]
		resource, _, _ := strings.Cut(r.Resource, "@")
		rows = append(rows, h.Tr(h.Th(h.Scope("row"), v.link(resource, v.moment, "type", resource)),
			h.Td(stamp(r.Complete.Since)), h.Td(stamp(r.Complete.Until)), h.Td(small(r.Complete.Lacks))))
	}
	head := h.THead(h.Tr(g.Map([]string{"Type", "Complete since", "Until", "Lacks"},
		func(t string) g.Node { return h.Th(h.Scope("col"), g.Text(t)) })))
	return g.Group{v.form(), h.P(text(found.Conclusion)), h.Table(head, h.TBody(rows))}, nil
}

// difference shows how objects differ between two moments.
func (v *view) difference(ctx context.Context) (g.Node, error) {
	found, err := v.log.Difference(ctx, &answer.Moments{Place: v.place(), From: v.get("from"), To: v.get("to"), Page: v.page()})
	if err != nil {
		return nil, err
	}
	var all g.Group
	for i := range found.Objects {
		c := &found.Objects[i]
		side := func(moment string) g.Node {
			return v.link(moment, moment, "type", c.Resource, "namespace", c.Namespace, "name", c.Name, "from", "", "to", "",
				"selector", "")
		}
		all = append(all, h.Li(h.Class(c.Op), h.Strong(text(c.Resource+" "+c.Namespace+"/"+c.Name)), g.Text(" "), text(c.Op),
			g.If(c.By != "", h.Span(g.Text(" by "), text(c.By))),
			h.Small(g.If(c.Op != "created", g.Group{g.Text("before: "), side(found.From), g.Text(" ")}),
				g.If(c.Op != "deleted", g.Group{g.Text("after: "), side(found.To)})), lines(c.Data)))
	}
	words := []string{"exporter", "diff", "--from", found.From, "--to", found.To}
	return g.Group{v.form(), conclusion(found.Conclusion, &found.Complete), h.Ul(h.Class("entries"), all), v.more(found.Cursor),
		v.command(v.selected(words...)...)}, nil
}
