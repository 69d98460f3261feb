package replay

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Plan is what a replay is to write. It stays the same when the replay is resumed.
type Plan struct {
	ID      string      `json:"id"`
	Cluster string      `json:"cluster"`
	Log     string      `json:"log"` // the identity of the log that is read, or its place
	From    Bound       `json:"from"`
	To      Bound       `json:"to"`
	Filter  Filter      `json:"filter"`
	Topics  []TopicPlan `json:"topics"`
	// Next are the offsets of the live log after the replay; empty for a sink without offsets.
	Next change.Offsets `json:"next,omitempty"`
	// Shared are topics in which records from before Next's end may come after its offsets, since several slots write to them.
	Shared     []string `json:"shared,omitempty"`
	Incomplete []string `json:"incomplete,omitempty"` // what the log does not have any more
}

// Bound is where a replay begins or ends.
type Bound struct {
	Text  string     `json:"text"`          // as it was given
	Clock string     `json:"clock"`         // what the bound is about: checkpoint, logged, or the log's start or end
	Time  time.Time  `json:"time,omitzero"` // of the bound
	Cut   *sinks.Cut `json:"cut,omitempty"` // nil: the log's start
	// Whole: the log is read from its start, and Cut applied to what is read: its offsets are not there any more.
	Whole bool `json:"whole,omitempty"`
}

// Filter selects changes. An empty field selects all.
type Filter struct {
	sinks.Objects
	Ops string `json:"ops,omitempty"`
}

// TopicPlan counts what is replayed of a topic, or, for a sink without topics, of a resource.
type TopicPlan struct {
	Stream  change.StreamID `json:"-"` // one of them
	Topic   string          `json:"topic"`
	To      string          `json:"to,omitempty"`
	Records int64           `json:"records"`
	First   time.Time       `json:"first"` // logged
	Last    time.Time       `json:"last"`
	Stubs   int64           `json:"stubs,omitempty"` // their whole records stay in the live log's dead-letter topic
}

func (p *Plan) Records() (n int64) {
	for _, t := range p.Topics {
		n += t.Records
	}
	return n
}

// topics are those that the plan writes to, if the target has topics.
func (p *Plan) topics() (topics []string) {
	for _, t := range p.Topics {
		topics = append(topics, t.To)
	}
	return topics
}

// NewID gives the id of a new replay: it sorts by time, and can be part of a transactional id.
func NewID(now time.Time) string {
	return now.UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:6])
}

// query selects what lies between the bounds.
func (p *Plan) query() sinks.Query {
	q := sinks.Query{Resources: p.Filter.Resources, To: p.To.Cut}
	if !p.From.Whole {
		q.After = p.From.Cut
	}
	return q
}

// whole reports whether the plan has all that the log has of its resources up to a cut: then its target has their state too.
func (p *Plan) whole() bool {
	f := &p.Filter
	stubs := slices.ContainsFunc(p.Topics, func(t TopicPlan) bool { return t.Stubs > 0 })
	return p.From.Cut == nil && len(p.Incomplete) == 0 && !stubs && f.Ops == "" && f.Namespace == "" && f.Selector == "" && len(f.Names) == 0
}

// wants decides by all but the labels.
func (p *Plan) wants(l *sinks.Logged) bool {
	if !p.Filter.Has(l) || p.Filter.Ops != "" && !strings.Contains(p.Filter.Ops, l.Op.String()) {
		return false
	}
	if !p.From.Whole || p.From.Cut == nil {
		return true
	}
	last, known := p.From.Cut.Batches[l.Slot]
	return !known || l.Batch > last
}

// NotKeptError says what of a replay the log does not have any more.
type NotKeptError struct{ Missing []string }

func (e *NotKeptError) Error() string {
	return "the log does not have all of that any more: " + strings.Join(e.Missing, "; ") +
		". Begin later, or go on with what there is: --incomplete"
}

// Unwrap makes it a sinks.ErrNotKept.
func (e *NotKeptError) Unwrap() error { return sinks.ErrNotKept }

// checkKept finds out whether the log has every change since the plan's start. Missing changes are an error, or noted in the plan.
func (p *Plan) checkKept(ctx context.Context, log sinks.Reader, incomplete bool) error {
	kept, err := log.Retained(ctx, p.Filter.Resources)
	if err != nil {
		return err
	}
	for _, resource := range slices.Sorted(maps.Keys(kept)) {
		k := kept[resource]
		if k.Lost != "" {
			p.Incomplete = append(p.Incomplete, resource+": "+k.Lost)
		}
		if p.From.Cut != nil && k.Since.After(p.From.Time) { // from its start there is what there is
			p.Incomplete = append(p.Incomplete, fmt.Sprintf("%s is complete since %s (logged), and the start is %s", resource,
				k.Since.UTC().Format(time.RFC3339), p.From.Time.UTC().Format(time.RFC3339)))
		}
	}
	if len(p.Incomplete) > 0 && !incomplete {
		return &NotKeptError{p.Incomplete}
	}
	if len(p.Incomplete) > 0 { // records before the start that are gone would be asked for by offset
		p.From.Whole = true
	}
	return nil
}

// Count reads what the plan selects, and notes how much it is and where the live log goes on.
func (p *Plan) Count(ctx context.Context, log sinks.Reader, progress func(read, of int64)) error {
	q := p.query()
	chosen, err := p.Filter.Labelled()
	if err != nil {
		return err
	}
	q.NoBodies, q.Progress = chosen.Empty(), progress
	seen := change.Offsets{}
	q.Wanted = func(l *sinks.Logged) bool {
		if l.Topic != "" {
			p.see(l, seen)
		}
		return p.wants(l)
	}
	topics := map[string]*TopicPlan{}
	err = log.Changes(ctx, q, func(l *sinks.Logged) error {
		if !chosen.Selects(l) {
			return nil
		}
		name := cmp.Or(l.Topic, l.Change.Stream.Resource.ID())
		t := topics[name]
		if t == nil {
			t = &TopicPlan{Stream: l.Change.Stream.ID(), Topic: name, First: l.Logged}
			topics[name] = t
		}
		t.count(l)
		return nil
	})
	if errors.Is(err, sinks.ErrNotKept) {
		return &NotKeptError{[]string{err.Error()}}
	}
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		p.Topics = append(p.Topics, *topics[name])
	}
	p.next(seen)
	return err
}

// see notes where the topic of a change goes on, and whether several slots write to it.
func (p *Plan) see(l *sinks.Logged, seen change.Offsets) {
	if l.Offset >= seen[l.Topic][l.Partition] {
		seen.Merge(change.Offsets{l.Topic: {l.Partition: l.Offset + 1}})
	}
	if strings.Contains(string(l.Change.Stream.ID()), "@") && p.To.Cut != nil && len(p.To.Cut.Batches) > 1 &&
		!slices.Contains(p.Shared, l.Topic) {
		p.Shared = append(p.Shared, l.Topic)
	}
}

func (t *TopicPlan) count(l *sinks.Logged) {
	t.Records++
	if l.DeadLetter != "" {
		t.Stubs++
	}
	if l.Logged.Before(t.First) {
		t.First = l.Logged
	}
	if l.Logged.After(t.Last) {
		t.Last = l.Logged
	}
}

// next chooses the offsets at which a consumer goes on. A cut's offset is where a later record may be first. In a topic that one
// slot alone writes to, it is also behind every record of the cut.
func (p *Plan) next(seen change.Offsets) {
	p.Next = change.Offsets{}
	for topic, partitions := range p.To.Cut.Offsets {
		if !slices.ContainsFunc(p.Filter.Resources, func(id string) bool { return isTopicOf(topic, id) }) {
			continue
		}
		for partition, offset := range partitions {
			if !slices.Contains(p.Shared, topic) {
				offset = max(offset, seen[topic][partition])
			}
			p.Next.Merge(change.Offsets{topic: {partition: offset}})
		}
	}
}

// isTopicOf compares the end of a topic's name, since the prefix is not known.
func isTopicOf(topic, resource string) bool {
	return strings.HasSuffix(topic, change.TopicOf("", change.StreamID(resource)))
}
