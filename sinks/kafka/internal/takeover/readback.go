package takeover

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/logread"
)

const (
	// These bound how much of the tail is read at once. That is several small batches, since each has few records in each of many
	// partitions, or one larger batch.
	groupChanges = 1000
	groupBytes   = 4 << 20
	// controlFetch bounds how many batch records of a tail wait in memory, in bytes.
	controlFetch = 64 << 10
)

// tailReader reads the tail batch by batch.
type tailReader struct {
	log     *Slot
	seq     uint64            // the last batch that was found
	batches []logread.Control // found, but not delivered yet
	topics  map[string]error  // by topic: nil if it exists, otherwise why it is gone
}

// readTail calls visit with each batch as it is read.
func (l *Slot) readTail(ctx context.Context, visit func(*sinks.Recovered) error) error {
	t := l.after
	if t == nil || t.lost != nil || t.seq == t.from.Seq {
		return nil
	}
	r := &tailReader{log: l, seq: t.from.Seq, topics: map[string]error{}}
	controls := l.controls(l.control.Index, t.first, r.add)
	controls.MaxBytes = controlFetch
	reader := consumer.New(l.Client, controls)
	for r.seq < t.seq {
		more, err := reader.Fetch(ctx, l.openOffset-1)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := r.deliver(ctx, visit); err != nil {
			return err
		}
	}
	if r.seq < t.seq {
		return gone("batch %d in %s", r.seq+1, l.ControlTopic())
	}
	return nil
}

func (r *tailReader) add(c logread.Control) error {
	if r.log.after.follows(c) {
		if c.Batch != r.seq+1 {
			return gone("batch %d in %s", r.seq+1, r.log.ControlTopic())
		}
		r.seq = c.Batch
		r.batches = append(r.batches, c)
	}
	return nil
}

// deliver reads the changes of the found batches, group by group. If something of a group is gone, it reads the group's batches
// one by one: those before the gap are complete.
func (r *tailReader) deliver(ctx context.Context, visit func(*sinks.Recovered) error) error {
	for n := 0; len(r.batches) > 0; r.batches = r.batches[n:] {
		n = r.next()
		changes, err := r.read(ctx, r.batches[:n])
		if errors.Is(err, consumer.ErrGone) && n > 1 {
			n = 1
			changes, err = r.read(ctx, r.batches[:n])
		}
		if err != nil {
			return err
		}
		for i, c := range r.batches[:n] {
			if err := r.visit(ctx, c, changes[i], visit); err != nil {
				return err
			}
			changes[i] = nil
		}
	}
	return nil
}

// next returns how many batches to read at once.
func (r *tailReader) next() int {
	changes, bytes := 0, int64(0)
	for i := range r.batches {
		changes, bytes = changes+r.batches[i].Changes, bytes+r.batches[i].Bytes
		if i > 0 && (changes > groupChanges || bytes > groupBytes) {
			return i
		}
	}
	return len(r.batches)
}

// read reads the changes of consecutive batches. Stubs replace images that were too large. Dead letters are not needed, since the
// object's next change also has the stub as its before-image.
func (r *tailReader) read(ctx context.Context, batches []logread.Control) ([][]change.Change, error) {
	changes := make([][]change.Change, len(batches))
	in := func(topic string) (bool, error) {
		if !r.log.IsData(topic) { // dead letters
			return false, nil
		}
		return true, r.exists(ctx, topic)
	}
	return changes, r.log.Batches(ctx, batches, in, logread.Changes{Bodies: logread.After},
		func(i int, l *sinks.Logged) error {
			l.After = bytes.Clone(l.After) // without the before-image
			changes[i] = append(changes[i], l.Change)
			return nil
		})
}

// visit compares the number of changes with the batch record. If compaction has removed some, a deletion may be among them. Then
// each object's last state, which compaction retains, must be read instead of the batches.
func (r *tailReader) visit(
	ctx context.Context, c logread.Control, changes []change.Change, visit func(*sinks.Recovered) error,
) error {
	if found := len(changes); found != c.Changes {
		return cmp.Or(r.log.addMissing(ctx, c), gone("batch %d has %d changes, %d of them", c.Batch, c.Changes, c.Changes-found))
	}
	return visit(&sinks.Recovered{
		Offsets: c.Ends().Merge(logread.StartsAsOffsets(c.Starts)).
			Merge(change.Offsets{r.log.ControlTopic(): {int(c.Partition): c.Offset + 1}}),
		Batch: change.Batch{Slot: c.Slot, Epoch: c.Epoch, Seq: c.Batch, Positions: c.Positions, Changes: changes}})
}

// exists checks each topic once. The error is ErrGone for a deleted topic.
func (r *tailReader) exists(ctx context.Context, topic string) error {
	err, known := r.topics[topic]
	if !known {
		exists, e := r.log.Client.Exists(ctx, topic, time.Now())
		if e != nil {
			return e
		}
		if !exists {
			err = gone("topic %s", topic)
		}
		r.topics[topic] = err
	}
	return err
}
