package kafka

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"kubecdc/change"
	"kubecdc/sinks"
)

// fold reads one partition after another. An object's records are all on one, in order: the last one tells.
func (f *folder) fold(ctx context.Context, visit func(*change.Change) error, progress func(sinks.Folded)) (sinks.Folded, error) {
	counts := map[string]*partitioning{}
	for _, p := range f.parts {
		if counts[p.topic] == nil {
			counts[p.topic] = newPartitioning(p.partitions)
		}
		if err := f.part(ctx, p, counts[p.topic], visit, progress); err != nil {
			return f.folded, err
		}
	}
	return f.folded, f.pin(ctx, counts)
}

func (f *folder) part(ctx context.Context, p foldPart, count *partitioning, visit func(*change.Change) error, progress func(sinks.Folded)) error {
	own := fmt.Appendf(nil, `{"cluster":%s,`, mustJSON(f.log.envelope.Cluster))
	before := f.folded.Records
	var s *scanner
	s = &scanner{topic: p.topic, partition: p.partition, first: p.first,
		wanted: func(r *fetched) bool {
			f.folded.Records = before + s.read
			progress(f.folded)
			return bytes.HasPrefix(r.key, own) && f.wants(p.topic, r)
		},
		visit: func(r fetched) error {
			count.see(r.key, int(p.partition))
			f.folded.Bytes += int64(len(r.key) + len(r.value))
			return f.object(r, visit)
		}}
	err := f.log.sink.client.scanTo(ctx, s, p.next-1)
	f.folded.Records = before + s.read
	return err
}

// wants leaves out what is of another prefix, whose topics may begin with this one's, and what was never finished: without a
// transaction its records can be seen, but the batch will be, or was, written again.
func (f *folder) wants(topic string, r *fetched) bool {
	id := change.StreamID(r.headers[change.HeaderStream])
	return id != "" && len(r.headers[change.HeaderOp]) == 1 && f.wanted.Stream(id) && change.TopicOf(f.log.envelope.Prefix, id) == topic
}

// object visits what a record makes of its object.
func (f *folder) object(r fetched, visit func(*change.Change) error) error {
	if r.plain && !f.finished(r.headers) {
		return nil
	}
	c := change.Change{Stream: change.StreamFromID(change.StreamID(r.headers[change.HeaderStream])), Op: change.Op(r.headers[change.HeaderOp][0]),
		UID: r.headers[change.HeaderUID], ResourceVersion: change.ResourceVersion(r.headers[change.HeaderResourceVersion])}
	var err error
	if _, c.Namespace, c.Name, err = change.DecodeKey(r.key); err != nil {
		return err
	}
	if c.Op != change.Delete && f.wanted.Bodies {
		if c.After, err = change.DecodeAfter(r.value); err != nil {
			return err
		}
	}
	return visit(&c)
}

func (f *folder) finished(headers map[string]string) bool {
	slot, err1 := strconv.Atoi(headers[change.HeaderSlot])
	epoch, err2 := strconv.ParseInt(headers[change.HeaderEpoch], 10, 64)
	batch, err3 := strconv.ParseUint(headers[change.HeaderBatch], 10, 64)
	return err1 != nil || err2 != nil || err3 != nil || f.history.finished(slot, epoch, batch)
}

// pin makes the checkpoint remember over how many partitions of each topic the keys are spread. Where some were added, the
// number that is found now is not the one that was written with.
func (f *folder) pin(ctx context.Context, counts map[string]*partitioning) error {
	for topic, count := range counts {
		if n := count.likely(); n > 0 {
			if _, err := f.log.sink.cfg.Pin(ctx, topic, n, false); err != nil {
				return fmt.Errorf("note how many partitions of %s are written to: %w", topic, err)
			}
		}
	}
	f.log.sink.topics.forget()
	return nil
}

// partitioning finds out over how many partitions keys are spread.
type partitioning struct{ possible []int } // that agree with all keys seen

func newPartitioning(found int) *partitioning {
	p := &partitioning{}
	for n := range found {
		p.possible = append(p.possible, n+1)
	}
	return p
}

func (p *partitioning) see(key []byte, partition int) {
	if len(p.possible) < 2 {
		return
	}
	kept := p.possible[:0]
	for _, n := range p.possible {
		if partitionFor(key, n) == partition {
			kept = append(kept, n)
		}
	}
	p.possible = kept
}

// likely is the highest number possible; 0 where no number is, since they were spread otherwise.
func (p *partitioning) likely() int {
	if len(p.possible) == 0 {
		return 0
	}
	return p.possible[len(p.possible)-1]
}
