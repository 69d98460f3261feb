package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/bench/peers"
	"kubecdc/test/servers"
)

// encodingRows returns rows of each encoding, like other rows of the watch. The remark has how many bytes a record takes in Kafka, on
// average over the list and the watch.
func encodingRows() (rows []row) {
	for _, name := range []string{"debezium", "debezium-schema", "cloudevents", "object"} {
		for _, packed := range []string{"none", "snappy"} {
			rows = append(rows, row{"encoding-" + name + "-" + packed,
				weighed(live(liveLoad{}, setting{"KUBECDC_ENCODING", name}, before("full"), codec(packed)))})
		}
	}
	return append(rows, row{"encoding-avro-none", weighed(inAvro("none"))}, row{"encoding-avro-snappy", weighed(inAvro("snappy"))})
}

// inAvro is a row of Avro, with a schema registry and an API server that describes its pods.
func inAvro(packed string) func(context.Context, *bench) ([]result, error) {
	return func(ctx context.Context, b *bench) ([]result, error) {
		if b.registry == nil {
			log := func(line string) { fmt.Fprintln(os.Stderr, line) }
			missing, err := servers.Install(ctx, log, servers.RegistryPart)
			if err != nil {
				return nil, err
			}
			if len(missing) > 0 {
				return nil, peers.Absent{Why: missing.String()}
			}
			if b.registry, err = servers.StartRegistry(ctx); err != nil {
				return nil, err
			}
		}
		return live(liveLoad{described: true}, setting{"KUBECDC_ENCODING", "avro"},
			setting{"KUBECDC_SCHEMA_REGISTRY_URL", b.registry.URL}, before("full"), codec(packed))(ctx, b)
	}
}

// weighed adds what the records of a measurement take in Kafka.
func weighed(measure func(context.Context, *bench) ([]result, error)) func(context.Context, *bench) ([]result, error) {
	return func(ctx context.Context, b *bench) ([]result, error) {
		bytes, records, err := b.stored(ctx)
		if err != nil {
			return nil, err
		}
		results, err := measure(ctx, b)
		if err != nil {
			return nil, err
		}
		moreBytes, moreRecords, err := b.stored(ctx)
		if n := moreRecords - records; n > 0 {
			results[0].remark = fmt.Sprintf("%d bytes a record", (moreBytes-bytes)/n)
		}
		return results, err
	}
}

// stored is the size of all data topics, and how many records they have.
func (b *bench) stored(ctx context.Context) (bytes, records int64, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Brokers...))
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	data := func(topic string) bool {
		return strings.HasPrefix(topic, "bench") && !strings.HasSuffix(topic, ".control")
	}
	dirs, err := admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if data(p.Topic) {
				bytes += p.Size
			}
		})
	})
	ends, err := admin.ListEndOffsets(ctx)
	ends.Each(func(o kadm.ListedOffset) {
		if data(o.Topic) {
			records += o.Offset
		}
	})
	return bytes, records, err
}
