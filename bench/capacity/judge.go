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
	initial int // so many of the sent versions are read by the first list
	topics  map[string]string

	mutex   sync.Mutex
	seen    int                // versions that have a record
	last    map[*object]uint64 // the version of its newest record
	wrong   []error
	batches map[string]float64 // by slot
	late    []time.Duration    // from the change to its record, since the last look
	all     []time.Duration
}

func (s *apiServer) judge(brokers []string, prefix string) (*judge, error) {
	j := &judge{world: s.world, initial: len(s.sent), topics: map[string]string{}, last: map[*object]uint64{}, batches: map[string]float64{}}
	topics := []string{change.ControlTopic(prefix), change.DeadLetterTopic(prefix)}
	for _, c := range s.collections {
		if c.turns == 0 {
			continue
		}
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
			if err := j.judgeRecord(r, now); err != nil {
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

func (j *judge) judgeRecord(r *kgo.Record, now time.Time) error {
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
	j.mu.Lock()
	defer j.mu.Unlock()
	if number < firstVersion || number > j.newest() {
		return fmt.Errorf("resourceVersion %d was never sent", number)
	}
	v := j.sent[number-firstVersion]
	wanted := map[string]string{"ADDED": "c", "MODIFIED": "u", "DELETED": "d"}[v.kind()]
	if int(number-firstVersion) < j.initial {
		wanted = string(change.Read)
	} else {
		j.late = append(j.late, now.Sub(v.time))
	}
	if op != wanted || plural != v.Plural || header(r, change.HeaderUID) != v.uid {
		return fmt.Errorf("%s of %s at %d, want %s of %s %d", op, plural, number, wanted, v.Plural, v.id)
	}
	if j.last[v.object] >= number {
		return fmt.Errorf("%s at %d after %d", plural, number, j.last[v.object])
	}
	j.last[v.object] = number
	j.seen++
	return nil
}

// missing returns how many versions have no record yet. An object's versions rise, so none is counted twice.
func (j *judge) missing() int {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.sent) - j.seen
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
