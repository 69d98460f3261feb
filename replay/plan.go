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

// Plan is what a replay writes. It does not change when the replay is resumed.
type Plan struct {
	ID      string      `json:"id"`
	Cluster string      `json:"cluster"`
	Log     string      `json:"log"` // the identity or the place of the log to read
	From    Bound       `json:"from"`
	To      Bound       `json:"to"`
	Filter  Filter      `json:"filter"`
	Topics  []TopicPlan `json:"topics"`
	// Next are the offsets of the live log after the replay. They are empty for a sink without offsets.
	Next change.Offsets `json:"next,omitempty"`
	// Shared are topics that several slots write to. There, records of the replay may also be at or after Next's offsets.
	Shared     []string `json:"shared,omitempty"`
	Incomplete []string `json:"incomplete,omitempty"` // what the log lacks
}

// Bound is the beginning or the end of a replay.
type Bound struct {
	Text  string     `json:"text"`  // as the user gave it
	Clock string     `json:"clock"` // checkpoint, logged, start of the log, or end of the log
	Time  time.Time  `json:"time,omitzero"`
	Cut   *sinks.Cut `json:"cut,omitempty"` // nil: the log's start
	// FromStart means that the log is read from its start and Cut only selects, since the offsets of Cut are pruned.
	FromStart bool `json:"whole,omitempty"`
}

// Filter selects changes. An empty field selects all.
type Filter struct {
	sinks.Objects
	Ops string `json:"ops,omitempty"` // letters of change.Op: "cd" selects creations and deletions
}

// TopicPlan counts the records to replay of a topic, or of a resource if the sink has no topics.
type TopicPlan struct {
	Stream  change.StreamID `json:"-"` // one of its streams
	Topic   string          `json:"topic"`
	To      string          `json:"to,omitempty"`
	Records int64           `json:"records"`
	First   time.Time       `json:"first"` // when the first and the last were logged
	Last    time.Time       `json:"last"`
	Stubs   int64           `json:"stubs,omitempty"` // their full records remain in the live log's dead-letter topic
}

// Records returns how many records the plan replays.
func (p *Plan) Records() (n int64) {
	for _, t := range p.Topics {
		n += t.Records
	}
	return n
}

// topics returns the topics that the plan writes to, if the target has topics.
func (p *Plan) topics() (topics []string) {
	for _, t := range p.Topics {
		topics = append(topics, t.To)
	}
	return topics
}

// NewID returns the id of a new replay. It sorts by time, and is valid in a transactional id.
func NewID(now time.Time) string {
	return now.UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:6])
}

// query selects the changes between the bounds.
func (p *Plan) query() sinks.Query {
	q := sinks.Query{Resources: p.Filter.Resources, To: p.To.Cut}
	if !p.From.FromStart {
		q.After = p.From.Cut
	}
	return q
}

// isCopy reports whether the plan has all changes of its resources up to a cut. Then the target also gets their state.
func (p *Plan) isCopy() bool {
	f := &p.Filter
	stubs := slices.ContainsFunc(p.Topics, func(t TopicPlan) bool { return t.Stubs > 0 })
	return p.From.Cut == nil && len(p.Incomplete) == 0 && !stubs && f.Ops == "" && f.Namespace == "" && f.Selector == "" &&
		len(f.Names) == 0
}

// wants reports whether the plan selects a change, before labels are compared.
func (p *Plan) wants(l *sinks.Logged) bool {
	if !p.Filter.Has(l) || p.Filter.Ops != "" && !strings.Contains(p.Filter.Ops, l.Op.String()) {
		return false
	}
	if !p.From.FromStart || p.From.Cut == nil {
		return true
	}
	has, _ := p.From.Cut.Batches.Has(l.Slot, l.Batch)
	return !has
}

// NotRetainedError lists what the log lacks of a replay.
type NotRetainedError struct{ Missing []string }

func (e *NotRetainedError) Error() string {
	return "the log does not have all of that any more: " + strings.Join(e.Missing, "; ") +
		". Begin later, or go on with what there is: --incomplete"
}

// Unwrap makes it a sinks.ErrNotRetained.
func (e *NotRetainedError) Unwrap() error { return sinks.ErrNotRetained }

// checkRetained checks that the log has every change since the plan's start, or the state at its end. It records missing changes
// in the plan if incomplete is set. Otherwise it returns a NotRetainedError.
func (p *Plan) checkRetained(ctx context.Context, log sinks.Reader, incomplete bool) error {
	retained, err := log.Retained(ctx, p.Filter.Resources)
	if err != nil {
		return err
	}
	first, name := p.From.Time, "start"
	if p.From.Cut == nil { // a replay from the start has everything in the log, but the log must still have the state at the end
		first, name = p.To.Time, "end"
	}
	for _, resource := range slices.Sorted(maps.Keys(retained)) {
		k := retained[resource]
		if k.Lost != "" {
			p.Incomplete = append(p.Incomplete, resource+": "+k.Lost)
		}
		if !first.IsZero() && k.Since.After(first) {
			p.Incomplete = append(p.Incomplete, fmt.Sprintf("%s is complete since %s (logged), and the %s is %s", resource,
				k.Since.UTC().Format(time.RFC3339), name, first.UTC().Format(time.RFC3339)))
		}
	}
	if len(p.Incomplete) > 0 && !incomplete {
		return &NotRetainedError{p.Incomplete}
	}
	if len(p.Incomplete) > 0 { // the offset of the start may be pruned
		p.From.FromStart = true
	}
	return nil
}

// Count reads what the plan selects. It records the counts, and where the live log goes on.
func (p *Plan) Count(ctx context.Context, log sinks.Reader, progress func(read, total int64)) error {
	q := p.query()
	chosen, err := p.Filter.Labelled()
	if err != nil {
		return err
	}
	q.NoBodies, q.Progress = chosen.Empty(), progress
	seen := change.Offsets{}
	q.Wanted = func(l *sinks.Logged) bool {
		if l.Topic != "" {
			p.addOffset(l, seen)
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
	if errors.Is(err, sinks.ErrNotRetained) {
		return &NotRetainedError{[]string{err.Error()}}
	}
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		p.Topics = append(p.Topics, *topics[name])
	}
	p.setNext(seen)
	return err
}

// addOffset records the offset after a change, and whether several slots write to its topic.
func (p *Plan) addOffset(l *sinks.Logged, seen change.Offsets) {
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

// setNext sets the offsets at which a consumer goes on after the replay. An offset of a cut is the lowest that a later record can
// have. If only one slot writes to a topic, the offset is also after every record of the cut.
func (p *Plan) setNext(seen change.Offsets) {
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

// isTopicOf compares the end of a topic's name, since the prefix is unknown.
func isTopicOf(topic, resource string) bool {
	return strings.HasSuffix(topic, change.TopicOf("", change.StreamID(resource)))
}
