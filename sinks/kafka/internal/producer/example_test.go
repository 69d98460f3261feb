package producer_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// One transaction is aborted and one is committed: the reader gets only the records of the second. A newer producer with the same
// transactional id fences the first.
func Example() {
	ctx := context.Background()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	must(err)
	defer fake.Close()
	client := cluster.New(cluster.Options{
		Brokers: fake.ListenAddrs(), ClientID: "example", Dial: (&net.Dialer{}).DialContext, RequestTimeout: 5 * time.Second,
		ReplicationFactor: -1, Logger: slog.Default(), Stuck: func(error) {}, Hint: func(error) string { return "" },
	})
	defer client.Close()

	options := producer.Options{TransactionalID: "example-1", Timeout: time.Minute}
	p, err := producer.New(ctx, client, options)
	must(err)
	partition := producer.NewTopic("orders", 1, 1<<20).Partition([]byte("key"))
	for value, commit := range map[string]bool{"aborted": false, "committed": true} {
		partition.Reset()
		partition.QueueRecord(recordbatch.Record{Key: []byte("key"), Value: [][]byte{[]byte(value)}})
		must(p.Add(ctx, partition))
		must(p.Produce(ctx, partition))
		must(p.End(ctx, commit))
	}

	ends, err := client.Ends(ctx, "orders")
	must(err)
	must(consumer.New(client, consumer.Range{Topic: "orders", Visit: func(r consumer.Record) error {
		fmt.Printf("%s=%s\n", r.Key, r.Value)
		return nil
	}}).ReadTo(ctx, ends[0]-1))

	_, err = producer.New(ctx, client, options)
	must(err)
	partition.Reset()
	partition.QueueRecord(recordbatch.Record{Key: []byte("key")})
	fmt.Println("fenced:", cluster.Judge(p.Produce(ctx, partition)) == cluster.Fenced)
	// Output:
	// key=committed
	// fenced: true
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
