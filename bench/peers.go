package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/bench/peers"
)

// peer is another program that brings changes into Kafka. Its source is in bench/peers.
type peer struct {
	name string
	// arguments start the program with a server, a topic and a codec.
	arguments arguments
	lists     bool // it writes a record for each object of the first list
	share     int  // it gets one of this many of the exporter's events, since it is slower
}

var (
	informer      = goPeer("informer", configureInformer, true, 5)
	collector     = goPeer("collector", configureCollector, false, 10)
	kubeRSTyped   = kubeRS("typed")
	kubeRSDynamic = kubeRS("dynamic")
)

type arguments = func(b *bench, server *apiServer, topic, codec string) ([]string, error)

func goPeer(name string, a arguments, lists bool, share int) *peer {
	return &peer{name, a, lists, share}
}

// kubeRS takes a codec as zstd, at rdkafka's own level, or as zstd:1.
func kubeRS(kind string) *peer {
	a := func(b *bench, _ *apiServer, topic, codec string) ([]string, error) {
		return []string{kind, b.kafka.Brokers[0], topic, codec}, nil
	}
	return &peer{"kube-rs", a, true, 1}
}

func configureInformer(b *bench, s *apiServer, topic, codec string) ([]string, error) {
	return []string{"-kubeconfig", s.kubeconfig, "-broker", b.kafka.Brokers[0], "-topic", topic, "-codec", codec}, nil
}

// The collector asks the broker for all acknowledgements and drops nothing, as the other programs do. It makes a hundred requests at
// once, since each waits for its record.
const collectorConfig = `
receivers:
  k8sobjects: {auth_type: kubeConfig, objects: [{name: pods, mode: watch}]}
exporters:
  kafka:
    brokers: [%q]
    logs: {topic: %q, encoding: otlp_json}
    producer: {required_acks: -1, compression: %s}
    sending_queue: {num_consumers: 100, block_on_overflow: true}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {logs: {receivers: [k8sobjects], exporters: [kafka]}}
`

func configureCollector(b *bench, _ *apiServer, topic, codec string) ([]string, error) {
	path := b.file(topic + ".yaml")
	return []string{"file:" + path}, os.WriteFile(path, fmt.Appendf(nil, collectorConfig, b.kafka.Brokers[0], topic, codec), 0o600)
}

// running is a peer at work: on which server, and into which topic.
type running struct {
	*process
	server *apiServer
	topic  string
	admin  *kadm.Client
}

func (b *bench) startPeer(ctx context.Context, p *peer, codec string, l liveLoad) (*running, error) {
	program, err := peers.Build(ctx, ".", p.name)
	if err != nil {
		return nil, err
	}
	server, err := b.startServer(ctx, l.orDefault().server()...)
	if err != nil {
		return nil, err
	}
	r := &running{server: server, topic: fmt.Sprintf("%s-%d", p.name, b.runs)}
	if err := r.start(ctx, b, p, program, codec); err != nil {
		server.stop()
		return nil, err
	}
	return r, nil
}

func (r *running) start(ctx context.Context, b *bench, p *peer, program, codec string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Brokers...))
	if err != nil {
		return err
	}
	r.admin = kadm.NewClient(client)
	if _, err := r.admin.CreateTopic(ctx, 6, 1, nil, r.topic); err != nil {
		return err
	}
	arguments, err := p.arguments(b, r.server, r.topic, codec)
	if err != nil {
		return err
	}
	r.process, err = start(b.file(r.topic+".log"), []string{"KUBECONFIG=" + r.server.kubeconfig}, program, arguments...)
	return err
}

func (r *running) close() {
	r.stop()
	r.server.stop()
	r.admin.Close()
}

// delivered waits until the topic has so many records, neither fewer nor more.
func (r *running) delivered(ctx context.Context, records int) error {
	for {
		ends, err := r.admin.ListEndOffsets(ctx, r.topic)
		if err != nil {
			return err
		}
		n := 0
		ends.Each(func(o kadm.ListedOffset) { n += int(max(o.Offset, 0)) }) // -1: the partition has no leader yet
		if n == records {
			return nil
		}
		if _, err := r.usage(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return r.failed(fmt.Sprintf("delivered %d of %d records", n, records))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// peerLive measures a peer's watch as live does the exporter's: after the first list and a warm-up, until every record is
// in the topic.
func peerLive(p *peer, codec string, l liveLoad) func(context.Context, *bench) ([]result, error) {
	return func(ctx context.Context, b *bench) ([]result, error) {
		r, err := b.startPeer(ctx, p, codec, l)
		if err != nil {
			return nil, err
		}
		defer r.close()
		before := warmUp
		if p.lists {
			before += liveObjects
		}
		if _, err := r.server.do(ctx, "send", warmUp); err != nil {
			return nil, err
		}
		if err := r.delivered(ctx, before); err != nil {
			return nil, err
		}
		first, err := r.usage()
		if err != nil {
			return nil, err
		}
		events := b.scaled(liveEvents) / p.share
		started := time.Now()
		if _, err := r.server.do(ctx, "send", events); err != nil {
			return nil, err
		}
		if err := r.delivered(ctx, before+events); err != nil {
			return nil, err
		}
		wall := time.Since(started)
		last, err := r.usage()
		return []result{{name: b.row, events: events, unit: "event", cpu: last.cpu - first.cpu, wall: wall, peak: last.peak}}, err
	}
}

// peerList measures a peer's first list; the program's start is part of it, as with the exporter.
func peerList(p *peer, codec string) func(context.Context, *bench) ([]result, error) {
	return func(ctx context.Context, b *bench) ([]result, error) {
		objects := b.scaled(listObjects)
		r, err := b.startPeer(ctx, p, codec, liveLoad{objects: objects})
		if err != nil {
			return nil, err
		}
		defer r.close()
		started := time.Now()
		if err := r.delivered(ctx, objects); err != nil {
			return nil, err
		}
		u, err := r.usage()
		return []result{{name: b.row, events: objects, unit: "object", cpu: u.cpu, wall: time.Since(started), peak: u.peak}}, err
	}
}
