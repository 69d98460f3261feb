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
	// These bound how much of the tail is read at once: several small batches together, since each has few records in each of
	// many partitions, or one that is larger.
	groupChanges = 1000
	groupBytes   = 4 << 20
	// controlFetch bounds how many batch records of a tail wait in memory.
	controlFetch = 64 << 10
)

// tailReader reads the tail batch by batch.
type tailReader struct {
	log     *Slot
	seq     uint64            // of the last batch that was found
	batches []logread.Control // found, and not delivered yet
	topics  map[string]error  // nil: the topic exists; otherwise it is gone
}

// readTail calls visit with each batch as it is read.
func (l *Slot) readTail(ctx context.Context, visit func(*sinks.Recovered) error) error {
	t := l.after
	if t == nil || t.lost != nil || t.seq == t.from.Seq {
		return nil
	}
	r := &tailReader{log: l, seq: t.from.Seq, topics: map[string]error{}}
	at := l.controls(l.control.Index, t.first, r.add)
	at.MaxBytes = controlFetch
	reader := consumer.New(l.Client, at)
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

// deliver reads the changes of the batches that were found, group by group. If something of a group is gone, it reads the
// group's batches one by one: those before the gap are complete.
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

// next is how many batches to read at once.
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

// read reads the changes of consecutive batches. In the place of what was too large are stubs, and nobody needs the dead letters:
// the object's next change has the stub as the object before it.
func (r *tailReader) read(ctx context.Context, batches []logread.Control) ([][]change.Change, error) {
	changes := make([][]change.Change, len(batches))
	in := func(topic string) (bool, error) {
		if !r.log.IsData(topic) { // the dead letters
			return false, nil
		}
		return true, r.exists(ctx, topic)
	}
	return changes, r.log.Batches(ctx, batches, in, logread.Changes{Bodies: logread.After},
		func(i int, l *sinks.Logged) error {
			l.After = bytes.Clone(l.After) // without the object before it
			changes[i] = append(changes[i], l.Change)
			return nil
		})
}

// visit compares the number of changes with that in the batch record. If compaction has removed some, a deletion may be among
// them: then the last state of each object, which compaction keeps, must be read in place of the batches.
func (r *tailReader) visit(
	ctx context.Context, c logread.Control, changes []change.Change, visit func(*sinks.Recovered) error,
) error {
	if found := len(changes); found != c.Changes {
		return cmp.Or(r.log.noteMissing(ctx, c), gone("batch %d has %d changes, %d of them", c.Batch, c.Changes, c.Changes-found))
	}
	return visit(&sinks.Recovered{
		Offsets: c.Ends().Merge(logread.StartsAsOffsets(c.Starts)).Merge(change.Offsets{r.log.ControlTopic(): {int(c.Partition): c.Offset + 1}}),
		Batch:   change.Batch{Slot: c.Slot, Epoch: c.Epoch, Seq: c.Batch, Positions: c.Positions, Changes: changes}})
}

// exists looks for each topic once. The error is ErrGone for one that was deleted.
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
