package takeover

import (
	"context"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/logread"
)

// State returns the state of the wanted streams at the end of the log. It reads their positions from the control topic, and
// finds the topics that may have their records. Fold of the result reads these topics.
func (l *Slot) State(ctx context.Context, wanted sinks.Selection) (*sinks.State, error) {
	h, err := l.completeHistory(ctx)
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
	f := &stateFold{log: l, history: h, wanted: wanted, counts: map[string]*logread.Partitioning{}}
	if err := f.find(ctx, p); err != nil {
		return nil, err
	}
	p.Fold = f.fold
	if p.Lost, err = l.inspect(ctx, p.Offsets); p.Lost != nil {
		l.lossy.Merge(p.Lost.Offsets)
	}
	lost := maps.Clone(h.lost)
	maps.DeleteFunc(lost, func(id change.StreamID, _ *change.Gap) bool { return !wanted.Stream(id) })
	p.Lost = p.Lost.Join(sinks.LostBeforeSpool(lost))
	return p, err
}

// completeHistory returns the history up to this owner's open record.
func (l *Slot) completeHistory(ctx context.Context) (*history, error) {
	ends, _, err := l.Client.SettledEnds(ctx, l.ControlTopic())
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

// slotState sets the slot's own part of the state.
func (l *Slot) slotState(h *history, p *sinks.State) {
	p.Epoch = l.seen.epoch
	control := map[int]int64{change.TopicID: l.ids.now[l.ControlTopic()]}
	p.Offsets[l.ControlTopic()] = control
	next := l.openOffset + 1 // before the first batch, tailStart searches for the open record
	if last, ok := h.last[l.slot]; ok {
		p.Seq = last.Batch
		if last.Partition != l.control.Index {
			return // the control topic had another number of partitions then
		}
		next = last.Offset + 1
	}
	control[int(l.control.Index)] = next
}

// stateFold reads data topics from their starts.
type stateFold struct {
	log     *Slot
	history *history
	wanted  sinks.Selection
	parts   []logread.Span
	counts  map[string]*logread.Partitioning // by topic
	folded  sinks.Progress
}

// find finds the topics that have, or may have, a selected stream. It leaves out a topic if all its streams are known, and none
// of them is selected.
func (f *stateFold) find(ctx context.Context, p *sinks.State) error {
	if f.history.isComplete && len(f.history.owners) == 0 && f.history.used() {
		return nil // only other clusters have written to it
	}
	topics, err := f.topics(ctx)
	if err != nil {
		return err
	}
	ids, err := f.log.topicIDs(ctx, topics...)
	if err != nil {
		return err
	}
	since := time.Now()
	for _, topic := range topics {
		p.Offsets.Merge(change.Offsets{topic: {change.TopicID: ids[topic]}}).Merge(change.Offsets{topic: f.history.starts[topic]})
		ends, err := f.ends(ctx, topic, since)
		if err != nil {
			return err
		}
		var starts map[int]int64
		if len(ends) > 0 {
			if starts, err = f.log.Client.Starts(ctx, topic); err != nil {
				return err
			}
		}
		for partition, end := range ends {
			f.counts[topic] = logread.NewPartitioning(len(ends))
			f.parts = append(f.parts, logread.Span{Topic: topic, Partition: int32(partition), First: starts[partition],
				Next: end})
			p.Records += end - starts[partition]
			p.Offsets.Merge(change.Offsets{topic: {partition: end}})
		}
		for partition, next := range f.history.ranges[topic] { // after the ends if records were lost
			p.Offsets.Merge(change.Offsets{topic: {partition: max(next, ends[partition])}})
		}
		p.Offsets.Merge(change.Offsets{topic: f.log.missing[topic]})
	}
	return nil
}

// ends returns nothing only if the topic was certainly deleted or never existed, since objects that are left out would be
// exported as new ones.
func (f *stateFold) ends(ctx context.Context, topic string, since time.Time) (ends map[int]int64, err error) {
	exists, err := f.log.Client.Exists(ctx, topic, since)
	if err == nil && exists {
		ends, _, err = f.log.Client.SettledEnds(ctx, topic) // including the markers of batches in the control topic
	}
	return ends, err
}

func (f *stateFold) topics(ctx context.Context) ([]string, error) {
	known := map[string]bool{} // topic → whether it has a selected stream
	for id := range f.history.streams {
		topic := change.TopicOf(f.log.Envelope.Prefix, id)
		known[topic] = known[topic] || f.wanted.Stream(id)
	}
	all, err := f.log.Topics(ctx)
	all = slices.AppendSeq(slices.AppendSeq(all, maps.Keys(known)), maps.Keys(f.history.ranges))
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(topic string) bool {
		wanted, ok := known[topic]
		return !f.log.IsData(topic) || ok && !wanted
	}), err
}
