// Package page shows a log to people with a browser. It has a timeline, the life of an object, objects at a moment, and how two
// moments differ. Package answer answers. The page works without a script, and an address with absolute times shows
// the same again.
package page

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"kubecdc/answer"
	"kubecdc/internal/plain"
	"kubecdc/internal/web"
)

//go:embed page.css
var css string

//go:embed page.js
var script string

// view is one page: what it shows, and of which question.
type view struct {
	log    *answer.Log
	root   string // the path of the cluster's pages, which ends with a slash
	moment string // that the path names, or empty for the present
	asked  url.Values
}

// mostBytes is how much of an answer a page has. The next page has what follows.
const mostBytes = 120_000

// Serve answers a request for a page. root is the path of the cluster's pages, and moment is the one that the path names.
func Serve(w http.ResponseWriter, r *http.Request, log *answer.Log, root, moment string) error {
	v := &view{log: log, root: root, moment: moment, asked: r.URL.Query()}
	title, body, err := v.body(r.Context())
	if r.Context().Err() != nil {
		return r.Context().Err()
	}
	code := http.StatusOK
	if err != nil {
		code, body = statusOf(err), g.Group{v.form(), problem("This can't be answered", err.Error())}
	}
	web.PageHeader(w.Header(), css, script)
	w.WriteHeader(code)
	return v.write(w, title, body)
}

func statusOf(err error) int {
	if errors.Is(err, web.ErrNotAllowed) {
		return http.StatusForbidden
	}
	return http.StatusBadRequest
}

func (v *view) body(ctx context.Context) (title string, body g.Node, err error) {
	switch {
	case v.get("from") != "":
		title = "Two moments"
		body, err = v.difference(ctx)
	case v.moment != "" || v.get("at") != "":
		title = "At " + v.momentOf()
		body, err = v.state(ctx)
	case v.get("name") != "":
		title = v.get("type") + "/" + v.get("name")
		body, err = v.life(ctx)
	default:
		title = "Timeline"
		body, err = v.timeline(ctx)
	}
	return title, body, err
}

func (v *view) write(w io.Writer, title string, body g.Node) error {
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(h.Meta(h.Charset("utf-8")), h.TitleEl(text(title+" · kubecdc")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")), h.Link(h.Rel("icon"), h.Href("data:,")),
			h.StyleEl(g.Raw(css))),
		h.Body(
			h.A(h.Class("skip"), h.Href("#main"), g.Text("Skip to the answer")),
			h.Header(h.P(h.Class("name"), h.Strong(g.Text("kubecdc"))), h.H1(text(title)),
				h.Nav(h.Aria("label", "Views"),
					v.link("Timeline", "", "from", "", "to", "", "at", "", "name", ""),
					v.link("Objects at a moment", "", "at", "now", "from", "", "to", "", "since", "", "until", ""),
					v.link("Two moments", "", "from", "1h", "to", "now", "at", "", "since", "", "until", ""))),
			h.Main(h.ID("main"), h.TabIndex("-1"), body),
			h.Footer(g.Text("All times are UTC.")),
			h.Script(g.Raw(script)),
		))).Render(w)
}

// get returns a parameter of the question.
func (v *view) get(name string) string { return strings.TrimSpace(v.asked.Get(name)) }

// momentOf returns the moment of a page of objects.
func (v *view) momentOf() string {
	if v.moment != "" {
		return v.moment
	}
	return v.get("at")
}

func (v *view) place() answer.Place {
	p := answer.Place{Namespace: v.get("namespace"), Name: v.get("name"), Selector: v.get("selector")}
	if types := v.get("type"); types != "" {
		p.Types = strings.Split(types, ",")
	}
	return p
}

func (v *view) span() answer.Span { return answer.Span{Since: v.get("since"), Until: v.get("until")} }

func (v *view) page() answer.Page {
	return answer.Page{MaxBytes: mostBytes, Cursor: v.asked.Get("cursor")}
}

// address returns the address of a page with the same question but for some parameters, in pairs of name and value. It is at a
// moment, unless that is empty.
func (v *view) address(moment string, pairs ...string) string {
	all := url.Values{}
	for name, values := range v.asked {
		if name != "cursor" && values[0] != "" {
			all.Set(name, values[0])
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if all.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			all.Del(pairs[i])
		}
	}
	path := v.root
	if moment != "" {
		path += "at/" + url.PathEscape(moment) + "/"
	}
	if query := all.Encode(); query != "" {
		path += "?" + query
	}
	return path
}

func (v *view) link(label, moment string, pairs ...string) g.Node {
	return h.A(h.Href(v.address(moment, pairs...)), text(label))
}

// text is text of any origin. Characters that steer what is shown are escaped.
func text(s string) g.Node { return g.Text(plain.Escape(s)) }

// stamp is a time as the page shows it.
func stamp(t string) g.Node {
	parsed, err := time.Parse(time.RFC3339, t)
	if err != nil {
		return text(t)
	}
	return h.Time(h.DateTime(t), g.Text(parsed.UTC().Format("2006-01-02 15:04:05")))
}

func problem(title string, lines ...string) g.Node {
	var all g.Group
	for _, line := range lines {
		all = append(all, h.Li(text(line)))
	}
	return h.Section(h.Class("wrong"), h.H2(g.Text(title)), h.Ul(all))
}

// conclusion says what was found, and what is not known.
func conclusion(found string, c *answer.Complete) g.Node {
	found, _, _ = strings.Cut(found, ", because: ") // which follows
	if len(c.Lacks) == 0 {
		return h.P(h.Class("good"), h.Role("status"), g.Text("✓ "), text(found))
	}
	return g.Group{h.P(h.Role("status"), text(found)), problem("What the log can't tell", c.Lacks...)}
}

// command is the command that asks the same.
func (v *view) command(words ...string) g.Node {
	if _, name, found := strings.Cut(v.root, "/clusters/"); found {
		name, _ = url.PathUnescape(strings.Trim(name, "/"))
		words = slices.Insert(words, 2, "--cluster", name)
	}
	for i, word := range words {
		if strings.ContainsAny(word, " \t\n'\"$`\\&|;<>()*?[]#~!{}") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return h.P(h.Class("command"), g.Text("The same in a terminal: "), h.Code(text(strings.Join(words, " "))))
}

// selected are the arguments and flags of a command that select the objects of a page.
func (v *view) selected(words ...string) []string {
	if name := v.get("name"); name != "" {
		words = append(words, v.get("type")+"/"+name)
	} else if types := v.get("type"); types != "" {
		words = append(words, types)
	}
	return v.flags(words, [2]string{"-n", "namespace"}, [2]string{"-l", "selector"})
}

// spanned are the words of exporter history: only that command has a span and a user.
func (v *view) spanned(words ...string) []string {
	words = v.flags(v.selected(words...), [2]string{"--by", "by"}, [2]string{"--since", "since"}, [2]string{"--until", "until"})
	if v.get("since") == "" && v.get("name") == "" {
		words = append(words, "--since", "1h") // as the timeline takes it
	}
	return words
}

func (v *view) flags(words []string, flags ...[2]string) []string {
	for _, flag := range flags {
		if value := v.get(flag[1]); value != "" {
			words = append(words, flag[0], value)
		}
	}
	return words
}

// more links to the next page.
func (v *view) more(cursor string) g.Node {
	if cursor == "" {
		return nil
	}
	return h.P(h.A(h.Href(v.address(v.moment, "cursor", cursor)), g.Text("What follows →")))
}
