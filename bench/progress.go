package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
)

// progress follows a control topic: how far each stream is in the log. Reading it costs the exporter nothing.
type progress struct {
	close    func()
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
	p := &progress{close: client.Close, versions: map[change.StreamID]uint64{}}
	go p.run(client)
	return p, nil
}

// followFile follows the positions of a log in a file, which the exporter makes.
func followFile(ctx context.Context, path string) (*progress, error) {
	var file *sqlitefile.File
	for {
		var err error
		if file, err = sqlitefile.Share(ctx, path); err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	following, stop := context.WithCancel(context.Background())
	p := &progress{close: stop, versions: map[change.StreamID]uint64{}}
	go func() {
		defer file.Close()
		for following.Err() == nil {
			p.poll(following, file.DB())
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return p, nil
}

// poll fails until the tables exist.
func (p *progress) poll(ctx context.Context, db *sql.DB) {
	rows, err := db.QueryContext(ctx, `select s.stream, p.version from log_positions p join log_streams s on s.id = p.stream`)
	if err != nil {
		return
	}
	defer rows.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for rows.Next() {
		var stream change.StreamID
		var version string
		if rows.Scan(&stream, &version) == nil {
			p.versions[stream], _ = strconv.ParseUint(version, 10, 64)
		}
	}
	_ = rows.Err() // it is asked again
}

func (p *progress) run(client *kgo.Client) {
	for {
		fetches := client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		p.record(fetches)
	}
}

func (p *progress) record(fetches kgo.Fetches) {
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
	for _, exported := range p.versions {
		if exported >= version {
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
