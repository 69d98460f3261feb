package replay

import (
	"cmp"
	"context"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/checkpoint"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
)

// Checkpoint is the state of the store at a time: the last checkpoint that each slot had stored by that time.
type Checkpoint struct {
	Name      string            `json:"name"` // name of the newest slot's checkpoint
	Time      time.Time         `json:"time"` // when the newest slot was stored
	Slots     []Slot            `json:"slots"`
	Positions []change.Position `json:"positions"` // by stream
	Offsets   change.Offsets    `json:"offsets"`   // by partition, the lowest at which a later record can be

	owner map[change.StreamID]int
}

// Slot is a slot's part of a checkpoint.
type Slot struct {
	Slot  int       `json:"slot"`
	Epoch int64     `json:"epoch"`
	Batch uint64    `json:"batch"`
	Time  time.Time `json:"time"`

	offsets change.Offsets
}

// Name returns the name of a row of the history: SLOT/BATCH.
func Name(c *checkpoint.Checkpoint) string { return moment.Batch{Slot: c.Slot, Number: c.Seq}.String() }

// List returns the checkpoints of all slots in a window, newest first.
func List(ctx context.Context, store checkpoint.Past, w checkpoint.Window) ([]checkpoint.Checkpoint, error) {
	slots, err := store.HistorySlots(ctx)
	if err != nil {
		return nil, err
	}
	var all []checkpoint.Checkpoint
	for _, slot := range slots {
		rows, err := store.Select(ctx, slot, w)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	slices.SortStableFunc(all, func(a, b checkpoint.Checkpoint) int { return b.Time.Compare(a.Time) })
	if w.Limit > 0 {
		all = all[:min(len(all), w.Limit)]
	}
	return all, nil
}

// Find returns the checkpoint that m names, or the last one at or before a time. It returns a fault.Usage if the history has
// none.
func Find(ctx context.Context, store checkpoint.Past, m moment.Moment, now time.Time) (*Checkpoint, error) {
	if m.Batch == nil {
		return join(ctx, store, cmp.Or(m.Time, now), nil)
	}
	rows, err := store.Select(ctx, m.Batch.Slot, checkpoint.Window{Batch: m.Batch.Number, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fault.Usagef("the history has no checkpoint %s: a checkpoint store keeps the last batch of each second, for "+
			"KUBECDC_HISTORY_RETENTION; exporter checkpoints list shows what there is", m.Batch)
	}
	return join(ctx, store, rows[0].Time, &rows[0])
}

// FindAt returns the last checkpoint at or before a time.
func FindAt(ctx context.Context, store checkpoint.Past, t time.Time) (*Checkpoint, error) {
	return join(ctx, store, t, nil)
}

// join joins the last checkpoint of each slot at or before a time. For the slot of named it uses named, since others may have the
// same time.
func join(ctx context.Context, store checkpoint.Past, until time.Time, named *checkpoint.Checkpoint) (*Checkpoint, error) {
	slots, err := store.HistorySlots(ctx)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{owner: map[change.StreamID]int{}}
	newest := map[change.StreamID]change.Position{}
	for _, slot := range slots {
		rows, err := store.Select(ctx, slot, checkpoint.Window{Until: until, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			continue
		}
		row := &rows[0]
		if named != nil && named.Slot == slot {
			row = named
		}
		c.add(row)
		positions, err := store.PositionsAt(ctx, slot, row.Seq)
		if err != nil {
			return nil, err
		}
		for _, p := range positions {
			if before, known := newest[p.Stream]; !known || p.Time.After(before.Time) {
				newest[p.Stream], c.owner[p.Stream] = p, slot
			}
		}
	}
	if len(c.Slots) == 0 {
		return nil, fault.Usagef("the history has no checkpoint at or before %s: exporter checkpoints list "+
			"--until shows the oldest ones", until.UTC().Format(time.RFC3339Nano))
	}
	if err := c.addStill(ctx, store, newest); err != nil {
		return nil, err
	}
	c.merge()
	return c, nil
}

func (c *Checkpoint) add(row *checkpoint.Checkpoint) {
	c.Slots = append(c.Slots, Slot{Slot: row.Slot, Epoch: row.Epoch, Batch: row.Seq, Time: row.Time, offsets: row.Offsets})
	if row.Time.After(c.Time) {
		c.Name, c.Time = Name(row), row.Time
	}
}

// addStill adds the streams whose last position is older than the history.
func (c *Checkpoint) addStill(ctx context.Context, store checkpoint.Past, newest map[change.StreamID]change.Position) error {
	streams, err := store.Streams(ctx)
	if err != nil {
		return err
	}
	for _, p := range streams {
		if _, known := newest[p.Stream]; !known && p.ResourceVersion != "" && p.Time.Before(c.Time) {
			newest[p.Stream] = p
		}
	}
	for _, p := range newest {
		c.Positions = append(c.Positions, p)
	}
	slices.SortFunc(c.Positions, func(a, b change.Position) int { return cmp.Compare(a.Stream, b.Stream) })
	return nil
}

// merge joins the offsets of the slots. In a partition, another slot may have written further than the slot that writes next. So
// for each topic the lowest offset counts, among the slots that have streams in it. A partition to which one of these has not
// written is left out.
func (c *Checkpoint) merge() {
	c.Offsets = change.Offsets{}
	for topic, slots := range c.writers() {
		if len(slots) == 0 {
			continue
		}
		c.Offsets[topic] = map[int]int64{}
		for p := range c.Slots[slots[0]].offsets[topic] {
			lowest, all := int64(-1), true
			for _, i := range slots {
				next, ok := c.Slots[i].offsets[topic][p]
				all = all && ok
				if lowest < 0 || next < lowest {
					lowest = next
				}
			}
			if all && p >= 0 {
				c.Offsets[topic][p] = lowest
			}
		}
	}
}

// writers returns for each topic the indexes of the slots that write to it. These are the slots with a stream of its resource. If
// there are none, it returns the slots that have ever written to it.
func (c *Checkpoint) writers() map[string][]int {
	owners := map[string]map[int]bool{} // by the end of the topic's name, since the prefix is unknown
	for stream, slot := range c.owner {
		name := change.TopicOf("", stream)
		if owners[name] == nil {
			owners[name] = map[int]bool{}
		}
		owners[name][slot] = true
	}
	topics := map[string]bool{}
	for _, s := range c.Slots {
		for topic := range s.offsets {
			topics[topic] = true
		}
	}
	all := map[string][]int{}
	for topic := range topics {
		known := ownersOf(owners, topic)
		for i, s := range c.Slots {
			if known[s.Slot] || known == nil && s.offsets[topic] != nil {
				all[topic] = append(all[topic], i)
			}
		}
	}
	return all
}

func ownersOf(owners map[string]map[int]bool, topic string) map[int]bool {
	for i := range topic {
		if topic[i] == '.' && owners[topic[i:]] != nil {
			return owners[topic[i:]]
		}
	}
	return nil
}

// Shared returns the topics that several slots write to. There, an offset is only the lowest at which a later record can be.
func (c *Checkpoint) Shared() (topics []string) {
	for topic, slots := range c.writers() {
		if len(slots) > 1 {
			topics = append(topics, topic)
		}
	}
	slices.Sort(topics)
	return topics
}

// Cut returns the checkpoint's place in the log.
func (c *Checkpoint) Cut() sinks.Cut {
	cut := sinks.Cut{Batches: sinks.Place{}, Offsets: c.Offsets}
	for _, s := range c.Slots {
		cut.Batches[s.Slot] = s.Batch
	}
	return cut
}
