package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
)

// judge reads what is committed, as a consumer does, and compares each record with what the server sent.
type judge struct {
	*world
	client  *kgo.Client
	initial int // of sent, so many are read by the first list
	topics  map[string]string

	mutex   sync.Mutex
	seen    []uint8            // by resourceVersion, as sent
	last    map[*object]uint64 // the version of its newest record
	wrong   []error
	batches map[string]int  // by slot
	late    []time.Duration // from the change to its record, since the last look
	all     []time.Duration
}

func (s *apiServer) judge(brokers []string, prefix string) (*judge, error) {
	j := &judge{world: s.world, initial: len(s.sent), topics: map[string]string{}, last: map[*object]uint64{}, batches: map[string]int{}}
	topics := []string{change.ControlTopic(prefix), change.DeadLetterTopic(prefix)}
	for _, c := range s.collections {
		name := change.Topic(prefix, c.Resource)
		j.topics[name] = c.Plural
		topics = append(topics, name)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topics...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(5*time.Second),
		kgo.FetchMaxWait(500*time.Millisecond))
	j.client = client
	return j, err
}

func (j *judge) run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := j.client.PollFetches(ctx)
		now := time.Now()
		j.mutex.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			if err := j.note(r, now); err != nil {
				j.wrong = append(j.wrong, fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err))
			}
		})
		j.mutex.Unlock()
	}
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func (j *judge) note(r *kgo.Record, now time.Time) error {
	plural, data := j.topics[r.Topic]
	op := header(r, change.HeaderOp)
	switch {
	case !data && header(r, change.HeaderType) == string(change.ControlBatch):
		j.batches[header(r, change.HeaderSlot)]++
		return nil
	case !data && header(r, change.HeaderType) == string(change.ControlGap):
		return fmt.Errorf("a gap: %s", r.Value)
	case !data && header(r, change.HeaderType) == "":
		return errors.New("a dead letter")
	case !data || op == change.OpTombstone:
		return nil
	}
	number, _ := strconv.ParseUint(header(r, change.HeaderResourceVersion), 10, 64)
	v, ok := j.version(number)
	if !ok {
		return fmt.Errorf("resourceVersion %d was never sent", number)
	}
	wanted := v.op()
	if int(number-firstVersion) < j.initial {
		wanted = string(change.Read)
	} else {
		j.late = append(j.late, now.Sub(v.at))
	}
	if op != wanted || plural != v.object.Plural || header(r, change.HeaderUID) != v.object.uid() {
		return fmt.Errorf("%s of %s at %d, want %s of %s %d", op, plural, number, wanted, v.object.Plural, v.object.id)
	}
	if j.last[v.object] >= number {
		return fmt.Errorf("%s at %d after %d", plural, number, j.last[v.object])
	}
	j.last[v.object] = number
	j.seen = append(j.seen, make([]uint8, max(0, int(number-firstVersion)+1-len(j.seen)))...)
	j.seen[number-firstVersion]++
	return nil
}

func (j *judge) version(number uint64) (version, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := int(number - firstVersion)
	if i < 0 || i >= len(j.sent) {
		return version{}, false
	}
	return j.sent[i], true
}

// missing is how many versions have no record yet.
func (j *judge) missing() (n int) {
	j.mu.Lock()
	sent := len(j.sent)
	j.mu.Unlock()
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for i := range sent {
		if i >= len(j.seen) || j.seen[i] == 0 {
			n++
		}
	}
	return n
}

// verdict is an error unless each version was delivered once, in the order of its object.
func (j *judge) verdict() error {
	missing := j.missing()
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if missing > 0 || len(j.wrong) > 0 {
		return fmt.Errorf("%d versions have no record; %d records are wrong: %w", missing, len(j.wrong), errors.Join(j.wrong[:min(5, len(j.wrong))]...))
	}
	return nil
}

// latency takes the delays since the last call.
func (j *judge) latency() []time.Duration {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	late := j.late
	j.late, j.all = nil, append(j.all, late...)
	return late
}

func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[int(q*float64(len(all)-1))].Round(100 * time.Microsecond)
}
