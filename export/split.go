package export

import (
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// A namespace of a resource that is a stream of its own (KUBECDC_SPLIT), and the rest, which keeps the resource's id.
// When the split changes, positions and objects change their streams with it; nothing runs meanwhile (layout.go).

// splitOf are the namespaces of the resource that are streams of their own.
func (c *Config) splitOf(r change.Resource) (namespaces []string) {
	for _, s := range c.Split {
		if s.Resource() == r.ID() {
			namespaces = append(namespaces, s.Namespace)
		}
	}
	return namespaces
}

// layout is what the settings say.
func (c *Config) layout() checkpoint.Layout {
	var split []string
	for _, s := range c.Split {
		split = append(split, s.String())
	}
	return checkpoint.NewLayout(c.Slots, split)
}

// resplit works out what becomes of the streams. positions are where all of them stand.
type resplit struct {
	positions map[string]change.Position // by stream
	moves     []checkpoint.Move
	changed   map[string]bool
	ended     []string
}

// planSplit gives the moves and positions of a change of the split. Merges come first: what they bring may go on to
// another stream. selectors is how the ids of this process's streams end.
func planSplit(r *checkpoint.Relayout, positions []change.Position, selectors string) {
	p := &resplit{positions: map[string]change.Position{}, changed: map[string]bool{}}
	for _, at := range positions {
		p.positions[at.Stream] = at
	}
	from, to := r.From.Splits(), r.To.Splits()
	for _, part := range from {
		if !slices.Contains(to, part) {
			p.each(part, selectors, p.merge)
		}
	}
	for _, part := range to {
		if !slices.Contains(from, part) {
			p.each(part, selectors, p.splitOff)
		}
	}
	r.Moves, r.Ended = p.moves, p.ended
	for stream := range p.changed {
		if at, ok := p.positions[stream]; ok {
			r.Positions = append(r.Positions, at)
		}
	}
}

// each calls f for the part's stream and the rest's, with the selectors of this process and all others that the
// checkpoint knows of the two.
func (p *resplit) each(part, selectors string, f func(namespace, stream, rest string)) {
	resource, namespace, _ := strings.Cut(part, "@")
	endings := map[string]bool{selectors: true}
	for stream := range p.positions {
		name, ending, found := strings.Cut(stream, "?")
		if found && (name == resource || name == part) {
			endings["?"+ending] = true
		} else if name == resource || name == part {
			endings[""] = true
		}
	}
	for ending := range endings {
		f(namespace, part+ending, resource+ending)
	}
}

// merge joins the stream of a namespace to the rest. Where the two are not equally far, the lower position counts, with
// floors: what the other has read already is not told again.
func (p *resplit) merge(namespace, stream, rest string) {
	p.moves = append(p.moves, checkpoint.Move{Namespace: namespace, From: stream, To: rest})
	theirs, known := p.positions[stream]
	mine, restKnown := p.positions[rest]
	if !known && !restKnown {
		return // neither had a complete list
	}
	mine.Stream = rest
	p.positions[rest] = mine.With(namespace, theirs)
	p.changed[rest] = true
	delete(p.positions, stream)
	p.ended = append(p.ended, stream)
}

// splitOff makes a stream of a namespace, which goes on where the rest is. If nothing is known of the rest, the stream may
// be known from a time when only this namespace was exported: it goes on where it was.
func (p *resplit) splitOff(namespace, stream, rest string) {
	mine, known := p.positions[rest]
	p.moves = append(p.moves, checkpoint.Move{Namespace: namespace, From: rest, To: stream, Anew: known})
	if !known {
		return
	}
	p.positions[stream] = change.Position{Stream: stream, ResourceVersion: mine.In(namespace), Time: mine.Time}
	p.positions[rest] = mine.Without(namespace)
	p.changed[stream], p.changed[rest] = true, true
}

// selectors is how the ids of all streams end.
func (c *Config) selectors() string {
	return change.NewStream(change.Resource{}, "", c.LabelSelector, c.FieldSelector).ID()
}
