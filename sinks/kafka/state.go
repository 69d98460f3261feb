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

// State reads the control topic, and finds the topics that may have the streams' records.
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
	l.slotState(h, p)
	f := &folder{log: l, history: h, wanted: wanted}
	if err := f.find(ctx, p); err != nil {
		return nil, err
	}
	p.Fold = f.fold
	if p.Lost, err = l.inspect(ctx, p.Offsets); p.Lost != nil {
		l.lossy.Merge(p.Lost.Offsets)
	}
	return p, err
}

// wholeHistory is the history up to this owner's open record.
func (l *slotLog) wholeHistory(ctx context.Context) (*history, error) {
	ends, err := l.sink.client.Ends(ctx, l.control.Topic.Name)
	if err != nil {
		return nil, err
	}
	ends[int(l.control.Index)] = l.openOffset // later records are its own
	if l.history == nil {
		l.history, err = l.readHistory(ctx, ends)
	} else {
		err = l.history.readTo(ctx, ends)
	}
	if err == nil && l.seen.epoch >= l.epoch {
		err = l.checkEpoch()
	}
	return l.history, err
}

// slotState sets what concerns the slot itself.
func (l *slotLog) slotState(h *history, p *sinks.State) {
	p.Epoch = l.seen.epoch
	control := map[int]int64{change.TopicID: l.ids.of[l.control.Topic.Name]}
	p.Offsets[l.control.Topic.Name] = control
	next := l.openOffset + 1 // before the first batch, tailStart looks for the open record
	if s := h.slots[l.slot]; s != nil && s.seq > 0 {
		if p.Seq = s.seq; s.partition != l.control.Index {
			return // the control topic had another number of partitions then
		}
		next = s.next
	}
	control[int(l.control.Index)] = next
}

// folder reads data topics from their starts.
type folder struct {
	log     *slotLog
	history *history
	wanted  sinks.Selection
	parts   []foldPart
	folded  sinks.Progress
}

// foldPart is a partition with the offsets to read: from first up to next.
type foldPart struct {
	topic       string
	partitions  int // of the topic
	partition   int32
	first, next int64
}

// find finds the topics in which a selected stream is or may be. It leaves out those whose streams are known, and none of them
// selected.
func (f *folder) find(ctx context.Context, p *sinks.State) error {
	if f.history.whole && len(f.history.slots) == 0 && f.history.used() {
		return nil // only other clusters have written here
	}
	topics, err := f.topics(ctx)
	if err != nil {
		return err
	}
	ids, err := f.log.sink.topicIDs(ctx, topics...)
	if err != nil {
		return err
	}
	since := time.Now()
	for _, topic := range topics {
		p.Offsets.Merge(change.Offsets{topic: {change.TopicID: ids[topic]}})
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
		for partition, next := range f.history.ranges[topic] { // beyond the ends, if records were lost
			p.Offsets.Merge(change.Offsets{topic: {partition: max(next, ends[partition])}})
		}
		p.Offsets.Merge(change.Offsets{topic: f.log.missing[topic]})
	}
	return nil
}

// ends returns nothing only if the topic was certainly deleted or never existed: objects that are left out would be exported as
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
	known := map[string]bool{} // topic → it has a selected stream
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
