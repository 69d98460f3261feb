// Package answer answers questions about a log: what changed, an object's history, a state, a difference, and coverage. Each
// answer says which moment it is of, and how far the log is complete. That nothing changed is said only where the log proves it.
// A client gets what it may read.
package answer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	authorization "k8s.io/api/authorization/v1"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/internal/suggest"
	"kubecdc/internal/web"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// Place is a part of the cluster.
type Place struct {
	Types     []string `json:"types,omitempty" jsonschema:"types as for kubectl: pods, deploy, cm, certificates.cert-manager.io; without them all"`
	Namespace string   `json:"namespace,omitempty" jsonschema:"only this namespace; without it all"`
	Name      string   `json:"name,omitempty" jsonschema:"only the object of this name, which needs one type"`
	Selector  string   `json:"selector,omitempty" jsonschema:"only objects with these labels: app=web,tier!=test"`
}

// Page bounds an answer.
type Page struct {
	MaxBytes int    `json:"maxBytes,omitempty" jsonschema:"about how long the answer may be, by default 16000 bytes"`
	Cursor   string `json:"cursor,omitempty" jsonschema:"the cursor of the answer before"`
}

// Complete is how far an answer is complete.
type Complete struct {
	Since string   `json:"since,omitempty" jsonschema:"from when on the log has every change of what was asked for"`
	Until string   `json:"until,omitempty" jsonschema:"up to when it has all"`
	Lacks []string `json:"lacks" jsonschema:"what the log can't tell; empty: the answer is complete"`
}

// Log answers one client.
type Log struct {
	sinks.Reader
	all       timeline.Source
	now       func() time.Time
	may       func(web.Asked) error // or nil for everything
	namespace string                // with may: the place that the client asks about
	allowed   []string              // with may: what the client may read there
	denied    []string              // the other resources
}

// New returns a log, of which a source finds the control records. may says what the client may read, or is nil for everything.
func New(r sinks.Reader, all timeline.Source, now func() time.Time, may func(web.Asked) error) *Log {
	return &Log{Reader: r, all: all, now: now, may: may}
}

// Follows returns a source for many questions. If the log finds no objects, as topics, each question reads it all anyway.
func Follows(r sinks.Reader) timeline.Source {
	if !r.FindsObjects() {
		return timeline.ReadsAll(r)
	}
	return timeline.NewFollower(r).Moment
}

// Answer is an answer of any kind. Its summary is a short text.
type Answer interface{ Summary() string }

// Resources returns the resources that the client may read. So no answer has anything of others, such as the owner of an object.
func (l *Log) Resources(ctx context.Context) ([]string, error) {
	if l.may != nil {
		return l.allowed, nil
	}
	return l.Reader.Resources(ctx)
}

// Changes visits no changes outside of the namespace that was reviewed. So a right to all of a namespace shows no deletion of a
// Node that owned something there.
func (l *Log) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	if wanted := q.Wanted; l.namespace != "" {
		q.Wanted = func(c *sinks.Logged) bool {
			isOwn := c.Namespace == "" && c.Name == l.namespace && change.ResourceOf(c.Stream.ID()).ID() == "namespaces"
			return (c.Namespace == l.namespace || isOwn) && (wanted == nil || wanted(c))
		}
	}
	return l.Reader.Changes(ctx, q, visit)
}

// in returns the log as the client may read it in a place, and the objects of that place.
func (l *Log) in(ctx context.Context, p *Place) (own *Log, found sinks.Objects, err error) {
	found = sinks.Objects{Namespace: p.Namespace, Selector: p.Selector}
	if p.Name != "" && len(p.Types) != 1 {
		return nil, found, fmt.Errorf("name is %q: give the one type of it in types", p.Name)
	}
	known, err := l.Reader.Resources(ctx)
	if err == nil && len(p.Types) > 0 {
		found.Resources, err = suggest.Resources(p.Types, known, "the log has no changes of")
		found.Resources = slices.Compact(slices.Sorted(slices.Values(found.Resources)))
	}
	if err != nil {
		return nil, found, err
	}
	if p.Name != "" {
		found.Names = []string{found.Resources[0] + "/" + p.Name}
	}
	if l.may == nil {
		return l, found, nil
	}
	own = &Log{Reader: l.Reader, all: l.all, now: l.now, may: l.may, namespace: p.Namespace}
	for _, id := range known {
		switch err := l.may(right(id, p)); {
		case err == nil:
			own.allowed = append(own.allowed, id)
		case !errors.Is(err, web.ErrNotAllowed):
			return nil, found, fmt.Errorf("your rights can't be checked now: %w", err)
		case slices.Contains(found.Resources, id):
			return nil, found, fmt.Errorf("you may not read %s there: %w", id, err)
		case len(p.Types) == 0: // else the question is not about it
			own.denied = append(own.denied, id)
		}
	}
	if len(found.Resources) == 0 {
		found.Resources = own.allowed
	}
	if len(found.Resources) == 0 {
		return nil, found, fmt.Errorf("you may read nothing there, perhaps in a namespace: %w", web.ErrNotAllowed)
	}
	return own, found, nil
}

// right returns the right that the API server demands for a list, or for an object of a name.
func right(id string, p *Place) web.Asked {
	r := change.ResourceOf(change.StreamID(id))
	a := &authorization.ResourceAttributes{Verb: "list", Group: r.Group, Resource: r.Plural, Namespace: p.Namespace}
	if len(p.Types) > 0 && p.Name != "" {
		a.Verb, a.Name = "get", p.Name
	}
	return web.Asked{ResourceAttributes: a}
}

// hidden returns what an answer lacks since the client may not read it.
func (l *Log) hidden() []string {
	if len(l.denied) == 0 {
		return nil
	}
	return []string{"you may not read " + strings.Join(l.denied, ", ") + " there"}
}

// moment reads a moment. An agent does not know this machine's zone.
func (l *Log) moment(field, text string, forms moment.Form) (m moment.Moment, err error) {
	if m, err = forms.Parse(text, l.now()); err == nil && m.IsLocal {
		err = fmt.Errorf("it has no zone: write 2026-11-22T10:53:56Z, or how long ago it was, such as 2h")
	}
	if err != nil {
		return m, fmt.Errorf("%s %q: %w", field, text, err)
	}
	return m, nil
}

func written(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// completeOf says how far the log has all between two times.
func completeOf(coverage []timeline.Coverage, missing []string, from, to time.Time) Complete {
	c := Complete{Lacks: append([]string{}, missing...)}
	var since, until time.Time
	for i := range coverage {
		one := &coverage[i]
		if one.Unserved || one.Unlisted {
			continue
		}
		if since = later(since, one.SinceTime); !from.IsZero() && one.SinceTime.After(from) {
			c.Lacks = append(c.Lacks, fmt.Sprintf("%s: the log has every change only since %s", one.Stream,
				written(one.SinceTime)))
		}
		if one.End.IsZero() { // the resource is gone
			continue
		}
		if until.IsZero() || one.End.Before(until) {
			until = one.End
		}
		if timeline.IsStale(one.End, to) {
			c.Lacks = append(c.Lacks, fmt.Sprintf("%s: the log has all only until %s", one.Stream, written(one.End)))
		}
	}
	if until.After(to) && !to.IsZero() {
		until = to
	}
	c.Since, c.Until = written(since), written(until)
	return c
}

// lacksOf returns what the log lacks of what happened until a time.
func lacksOf(coverage []timeline.Coverage, until time.Time) (all []string) {
	for i := range coverage {
		c := &coverage[i]
		if len(c.Gaps) == 0 { // else Missing may have some of them
			all = append(all, c.Missing...)
		}
		for _, g := range c.Gaps {
			if g.From.Before(until) {
				all = append(all, fmt.Sprintf("%s: changes between %s and %s may be missing: %s", c.Stream, written(g.From),
					written(g.To), g.Reason))
			}
		}
	}
	return all
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// because names the first reasons.
func (c *Complete) because() string {
	const most = 3
	text := strings.Join(c.Lacks[:min(len(c.Lacks), most)], "; ")
	if n := len(c.Lacks) - most; n > 0 {
		text += fmt.Sprintf("; and %d more reasons", n)
	}
	return text
}

// finding is what the conclusions of an answer are about.
type finding struct {
	thing, place string // the things that are counted, and their place
	unknown      string // is said of an empty answer that is not complete
	none         string // is said of an empty answer that the log proves
	more         string // is said of an answer that is not complete
}

// conclude says what an answer has found, or that this is not known.
func conclude[T any](all *page[T], c *Complete, f finding) string {
	lacks := len(c.Lacks) > 0
	if all.seen == 0 && lacks {
		return "It is not known whether " + f.unknown + ", because: " + c.because()
	}
	if all.seen == 0 {
		return f.none
	}
	text := fmt.Sprintf("%s %s; these are %d to %d", english.Plural(all.seen, f.thing, ""), f.place, all.skip+1,
		all.skip+len(all.entries))
	if lacks {
		text += ". " + f.more + ", because: " + c.because()
	}
	return text
}

// cursor is where an answer goes on. All its pages are of one state of the log.
type cursor struct {
	From, Until time.Time  // absolute, though the question may say how long ago
	Open        bool       `json:",omitempty"` // Until is the present: clocks of API servers may be ahead of it
	To          *sinks.Cut `json:",omitempty"`
	Skip        int
}

func (p *Page) begin() (c *cursor, err error) {
	if p.Cursor == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || c == nil || c.Skip < 0 {
		return nil, fmt.Errorf("cursor %q is not of an answer: leave it out to begin", p.Cursor)
	}
	return c, nil
}

func (c cursor) text() string {
	text, _ := json.Marshal(c) // it has only times and numbers
	return base64.RawURLEncoding.EncodeToString(text)
}

// page is the entries of an answer that have room.
type page[T any] struct {
	skip, seen, left int
	entries          []T
	more             bool
}

const usualBytes, mostBytes = 16_000, 4_000_000

func newPage[T any](p *Page, from *cursor) *page[T] {
	all := &page[T]{left: usualBytes, entries: []T{}}
	if p.MaxBytes > 0 {
		all.left = min(p.MaxBytes, mostBytes)
	}
	if from != nil {
		all.skip = from.Skip
	}
	return all
}

// add adds an entry, if there is room. An entry that no page has room for comes without its data.
func (p *page[T]) add(entry T, without func(*T)) error {
	p.seen++
	if p.seen <= p.skip || p.more {
		return nil
	}
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if len(text) > p.left && len(p.entries) == 0 {
		without(&entry)
		text = nil
	}
	if p.more = len(text) > p.left; !p.more {
		p.left -= len(text)
		p.entries = append(p.entries, entry)
	}
	return nil
}

func (p *page[T]) next(c cursor) string {
	if !p.more {
		return ""
	}
	c.Skip = p.skip + len(p.entries)
	return c.text()
}
