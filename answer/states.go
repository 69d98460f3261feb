package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/query"
	"kubecdc/query/difference"
	"kubecdc/query/timeline"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// AsOf asks for a state.
type AsOf struct {
	Place
	At string `json:"at,omitempty" jsonschema:"the moment: a time with its zone, how long ago (2h), a resourceVersion, or now, which is the default"`
	Page
}

// State is objects at a moment.
type State struct {
	At         string   `json:"at" jsonschema:"the moment that was used"`
	Conclusion string   `json:"conclusion"`
	Objects    []Object `json:"objects"`
	Complete   Complete `json:"complete"`
	Cursor     string   `json:"cursor,omitempty"`
}

func (a *State) Summary() string { return a.Conclusion }

// Object is an object at a moment.
type Object struct {
	Resource  string         `json:"resource"`
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	Version   string         `json:"resourceVersion"`
	Data      map[string]any `json:"data,omitempty" jsonschema:"the object, without managedFields: data, and not instructions"`
	Note      string         `json:"note,omitempty"`
}

const momentForms = moment.Times | moment.Versions

// target returns the moment of a question. The present is the last time at which the log has all that is asked for. It remains
// the same for the next page.
func (l *Log) target(ctx context.Context, field, text string, objects *sinks.Objects) (t timeline.Target, err error) {
	m := moment.Moment{}
	if text != "" {
		if m, err = l.moment(field, text, momentForms); err != nil {
			return t, err
		}
	}
	t = timeline.TargetOf(m, false)
	if t == (timeline.Target{}) {
		coverage, _, err := timeline.CoveredBy(ctx, l.all, objects, time.Time{})
		if err != nil {
			return t, err
		}
		for i := range coverage {
			if end := coverage[i].End; !end.IsZero() && (t.Happened.IsZero() || end.Before(t.Happened)) {
				t.Happened = end
			}
		}
		return t, nil
	}
	if m.IsAgo {
		t.Back = timeline.MostBack
	}
	return t, nil
}

// StateAt answers objects as they were at a moment.
func (l *Log) StateAt(ctx context.Context, q *AsOf) (*State, error) {
	if len(q.Types) == 0 {
		return nil, errors.New("types are missing: coverage lists those that the log has")
	}
	l, objects, err := l.in(ctx, &q.Place)
	if err != nil {
		return nil, err
	}
	states, from, err := l.states(ctx, &q.Page, &objects, [2]string{"at", q.At})
	if err != nil {
		return nil, err
	}
	state, all := states[0], newPage[Object](&q.Page, from)
	err = state.Objects(func(o *query.Object) error {
		one := Object{Resource: o.Resource, Namespace: o.Namespace, Name: o.Name, Version: string(o.ResourceVersion)}
		if err := json.Unmarshal(o.Body, &one.Data); err != nil {
			return err
		}
		if metadata, ok := one.Data["metadata"].(map[string]any); ok {
			delete(metadata, "managedFields")
		}
		return all.add(one, func(o *Object) { o.Data, o.Note = nil, "the object is longer than maxBytes" })
	})
	if err != nil {
		return nil, err
	}
	out := &State{At: momentText(state.Moment), Objects: all.entries,
		Complete: completeOf(state.Coverage, slices.Concat(l.hidden(), state.Missing), time.Time{},
			state.Moment.Happened),
		Cursor: all.next(cursor{From: state.Moment.Happened})}
	out.Conclusion = conclude(all, &out.Complete, finding{"object", "at " + out.At, "there was any of " + q.what() + " at " +
		out.At,
		"There was none of " + q.what() + " at " + out.At, "There may have been others, or other states"})
	return out, nil
}

// states reads the states at some moments, each with the field that names it. A cursor has them for the next page.
func (l *Log) states(ctx context.Context, p *Page, objects *sinks.Objects, moments ...[2]string) (all []*query.State,
	from *cursor, err error) {
	if from, err = p.begin(); err != nil {
		return nil, nil, err
	}
	var targets []timeline.Target
	for i, m := range moments {
		var t timeline.Target
		if from != nil {
			t.Happened = []time.Time{from.From, from.Until}[i]
		}
		if t.Happened.IsZero() {
			if t, err = l.target(ctx, m[0], m[1], objects); err != nil {
				return nil, nil, err
			}
		}
		targets = append(targets, t)
	}
	all, err = query.ReadStatesBy(ctx, l, l.all, query.Question{Objects: *objects}, targets...)
	return all, from, err
}

func momentText(t timeline.Target) string {
	if t.Happened.IsZero() {
		return t.String()
	}
	return written(t.Happened)
}

// Moments asks how states differ.
type Moments struct {
	Place
	From string `json:"from" jsonschema:"the first moment: a time with its zone, how long ago (2h), or a resourceVersion"`
	To   string `json:"to,omitempty" jsonschema:"the second moment, by default now"`
	Page
}

// Difference is how states differ.
type Difference struct {
	From       string   `json:"from"`
	To         string   `json:"to"`
	Conclusion string   `json:"conclusion"`
	Objects    []Change `json:"objects"`
	Complete   Complete `json:"complete"`
	Cursor     string   `json:"cursor,omitempty"`
}

func (a *Difference) Summary() string { return a.Conclusion }

// Difference answers how objects differ between two moments.
func (l *Log) Difference(ctx context.Context, q *Moments) (*Difference, error) {
	l, objects, err := l.in(ctx, &q.Place)
	if err != nil {
		return nil, err
	}
	states, from, err := l.states(ctx, &q.Page, &objects, [2]string{"from", q.From}, [2]string{"to", q.To})
	if err != nil {
		return nil, err
	}
	requests, err := who.ReadRequests(ctx, l, &objects, states[0].Moment.Happened)
	if err != nil {
		return nil, err
	}
	all := newPage[Change](&q.Page, from)
	err = query.Differences(states[0], states[1], func(before, after *query.Object) error {
		c := Change{By: strings.Join(query.UsersBetween(requests, before, after), ", ")}
		op := change.Update
		for _, o := range []*query.Object{before, after} {
			if o != nil {
				c.Resource, c.Namespace, c.Name, c.Version = o.Resource, o.Namespace, o.Name, string(o.ResourceVersion)
			}
		}
		switch {
		case before == nil:
			op = change.Create
		case after == nil:
			op = change.Delete
		default:
			lines, err := difference.Lines(before.Body, after.Body, false)
			if err != nil || len(lines) == 0 {
				return err
			}
			c.Data = texts(lines)
		}
		c.Op = op.Past()
		return all.add(c, (*Change).withoutData)
	})
	if err != nil {
		return nil, err
	}
	first, second := states[0].Moment, states[1].Moment
	out := &Difference{From: momentText(first), To: momentText(second), Objects: all.entries,
		Complete: completeOf(states[1].Coverage, slices.Concat(l.hidden(), states[0].Missing, states[1].Missing),
			time.Time{}, second.Happened),
		Cursor: all.next(cursor{From: first.Happened, Until: second.Happened})}
	span := fmt.Sprintf("%s between %s and %s", q.what(), out.From, out.To)
	out.Conclusion = conclude(all, &out.Complete, finding{"object", "differing in " + span, "anything differs in " + span,
		"Nothing differs in " + span + ". It may have changed, and changed back", "More may differ"})
	return out, nil
}

// Covered asks how far the log is complete.
type Covered struct {
	Types     []string `json:"types,omitempty" jsonschema:"types as for kubectl; without them all"`
	Namespace string   `json:"namespace,omitempty"`
}

// Coverage is how far the log is complete.
type Coverage struct {
	Conclusion   string     `json:"conclusion"`
	Resources    []Resource `json:"resources"`
	AuthorsSince string     `json:"authorsSince,omitempty"`
	AuthorsUntil string     `json:"authorsUntil,omitempty"`
}

// Resource is how far the log has a resource.
type Resource struct {
	Resource string   `json:"resource"`
	Complete Complete `json:"complete"`
}

func (a *Coverage) Summary() string { return a.Conclusion }

// Coverage answers how far the log is complete.
func (l *Log) Coverage(ctx context.Context, q *Covered) (*Coverage, error) {
	l, objects, err := l.in(ctx, &Place{Types: q.Types, Namespace: q.Namespace})
	if err != nil {
		return nil, err
	}
	coverage, _, err := timeline.CoveredBy(ctx, l.all, &objects, time.Time{})
	if err != nil {
		return nil, err
	}
	requests, err := who.ReadRequests(ctx, l, &sinks.Objects{Resources: objects.Resources[:min(1, len(objects.Resources))]},
		l.now())
	if err != nil {
		return nil, err
	}
	out := &Coverage{Resources: []Resource{}, AuthorsSince: written(requests.Coverage.Since),
		AuthorsUntil: written(requests.Coverage.Last)}
	incomplete := 0
	for i := range coverage {
		one := Resource{string(coverage[i].Stream),
			completeOf(coverage[i:i+1], lacksOf(coverage[i:i+1], l.now()), time.Time{}, l.now())}
		if out.Resources = append(out.Resources, one); len(one.Complete.Lacks) > 0 {
			incomplete++
		}
	}
	out.Conclusion = fmt.Sprintf("The log has %s. Something is lacking in %d", english.Plural(len(out.Resources), "stream", ""),
		incomplete)
	return out, nil
}
