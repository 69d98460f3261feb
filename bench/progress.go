package main

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
)

// progress follows a control topic: how far each stream is in the log. Reading it costs the exporter nothing.
type progress struct {
	client   *kgo.Client
	mu       sync.Mutex
	versions map[change.StreamID]uint64
	gap      *change.Gap // the last one
}

func (b *bench) followControl(prefix string) (*progress, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Brokers...), kgo.ConsumeTopics(change.ControlTopic(prefix)),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(time.Second)) // the topic is made later
	if err != nil {
		return nil, err
	}
	p := &progress{client: client, versions: map[change.StreamID]uint64{}}
	go p.run()
	return p, nil
}

func (p *progress) run() {
	for {
		fetches := p.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		p.note(fetches)
	}
}

func (p *progress) note(fetches kgo.Fetches) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		var c change.Control
		if json.Unmarshal(r.Value, &c) != nil {
			return
		}
		if c.Gap != nil {
			p.gap = c.Gap
		}
		for _, position := range c.Positions {
			p.versions[position.Stream], _ = strconv.ParseUint(string(position.ResourceVersion), 10, 64)
		}
	})
}

// reached counts the streams that are at the version or after it.
func (p *progress) reached(version uint64) (streams int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.versions {
		if at >= version {
			streams++
		}
	}
	return streams
}

// lastGap gives the gap that was written last.
func (p *progress) lastGap() change.Gap {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gap == nil {
		return change.Gap{}
	}
	return *p.gap
}
