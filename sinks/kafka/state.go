package kafka

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
)

// State reads the control topic, and finds the topics that the streams' records are in.
func (l *slotLog) State(ctx context.Context, wanted sinks.Selection) (*sinks.State, error) {
	h, err := l.wholeHistory(ctx)
	if err != nil {
		return nil, err
	}
	p := &sinks.State{Offsets: change.Offsets{}}
	for id, s := range h.streams {
		if wanted.Stream(id) {
			p.Positions = append(p.Positions, s.Position)
		}
	}
	l.pastOf(h, p)
	f := &folder{log: l, history: h, wanted: wanted}
	if err := f.find(ctx, p); err != nil {
		return nil, err
	}
	p.Fold = f.fold
	p.Lost, err = l.inspect(ctx, p.Offsets)
	return p, err
}

// wholeHistory is the history up to this owner's mark.
func (l *slotLog) wholeHistory(ctx context.Context) (*history, error) {
	ends, err := l.sink.client.Ends(ctx, l.control.Topic.Name)
	if err != nil {
		return nil, err
	}
	ends[int(l.control.Index)] = l.marked // no later: those records are its own
	if l.history == nil {
		l.history, err = l.readHistory(ctx, ends)
	} else {
		err = l.history.readTo(ctx, ends)
	}
	if err == nil && l.met.epoch >= l.epoch {
		err = l.newer()
	}
	return l.history, err
}

// pastOf says where the slot itself stands.
func (l *slotLog) pastOf(h *history, p *sinks.State) {
	p.Epoch = l.met.epoch
	next := l.marked + 1 // before the first batch, the mark is what the next owner trusts
	if s := h.slots[l.slot]; s != nil && s.seq > 0 {
		if p.Seq = s.seq; s.partition != l.control.Index {
			return // the topic's partitions were counted otherwise then
		}
		next = s.next
	}
	p.Offsets[l.control.Topic.Name] = map[int]int64{int(l.control.Index): next}
}

// folder reads data topics from their starts.
type folder struct {
	log     *slotLog
	history *history
	wanted  sinks.Selection
	parts   []foldPart
	folded  sinks.Progress
}

// foldPart is a partition, to be read from one offset up to another.
type foldPart struct {
	topic       string
	partitions  int // of the topic
	partition   int32
	first, next int64
}

// find takes those topics in which a stream is, or may be, that is wanted: one whose streams all are known to be others' is
// left out.
func (f *folder) find(ctx context.Context, p *sinks.State) error {
	if f.history.whole && len(f.history.slots) == 0 && f.history.used() {
		return nil // others write here, and the cluster never did
	}
	topics, err := f.topics(ctx)
	if err != nil {
		return err
	}
	since := time.Now()
	for _, topic := range topics {
		ends, err := f.ends(ctx, topic, since)
		if err != nil {
			return err
		}
		var starts map[int]int64
		if len(ends) > 0 {
			if starts, err = f.log.sink.client.Starts(ctx, topic); err != nil {
				return err
			}
		}
		for partition, end := range ends {
			f.parts = append(f.parts, foldPart{topic, len(ends), int32(partition), starts[partition], end})
			p.Records += end - starts[partition]
			p.Offsets.Merge(change.Offsets{topic: {partition: end}})
		}
		for partition, next := range f.history.ranges[topic] { // more than there is, where some was lost
			p.Offsets.Merge(change.Offsets{topic: {partition: max(next, ends[partition])}})
		}
	}
	return nil
}

// ends gives nothing only where the topic is gone for sure, or was never there: objects that are left out would be taken for
// new ones.
func (f *folder) ends(ctx context.Context, topic string, since time.Time) (ends map[int]int64, err error) {
	c := f.log.sink.client
	err = c.Try(ctx, "find "+topic, func(ctx context.Context) error {
		if ends, err = c.Offsets(ctx, topic, cluster.Latest); !cluster.NoTopic(err) {
			return err
		}
		gone, err := c.Deleted(ctx, topic, since)
		if err == nil && !gone {
			err = cluster.ErrUnknownYet(topic)
		}
		return err
	})
	return ends, err
}

func (f *folder) topics(ctx context.Context) ([]string, error) {
	prefix := f.log.envelope.Prefix
	known := map[string]bool{} // topic → a stream in it is wanted
	for id := range f.history.streams {
		topic := change.TopicOf(prefix, id)
		known[topic] = known[topic] || f.wanted.Stream(id)
	}
	all := slices.AppendSeq(slices.Collect(maps.Keys(known)), maps.Keys(f.history.ranges))
	err := f.log.sink.client.Try(ctx, "list the topics "+prefix+".*", func(ctx context.Context) error {
		names, err := f.log.sink.client.Topics(ctx)
		all = append(all, names...)
		return err
	})
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(topic string) bool {
		wanted, ok := known[topic]
		return !strings.HasPrefix(topic, prefix+".") || ok && !wanted ||
			topic == change.ControlTopic(prefix) || topic == change.DeadLetterTopic(prefix)
	}), err
}
