package stdout_test

import (
	"context"
	"os"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/stdout"
)

func Example() {
	ctx := context.Background()
	sink := stdout.New(stdout.Options{Envelope: change.Envelope{Cluster: "prod", Prefix: "k8s", Version: "v1.0.0"}, Out: os.Stdout, Format: stdout.JSON})
	opened, err := sink.Open(ctx, 0, 1, sinks.Durable{})
	if err != nil {
		panic(err)
	}
	stream := change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	_, err = opened.Log.Write(ctx, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{
		{Stream: stream, Op: change.Delete, Namespace: "default", Name: "web", UID: "u1", ResourceVersion: "10", Time: time.UnixMilli(1700000000000)}}})
	if err != nil {
		panic(err)
	}
	// Output:
	// {"before":null,"after":null,"op":"d","ts_ms":1700000000000,"ts_us":1700000000000000,"ts_ns":1700000000000000000,"source":{"version":"v1.0.0","connector":"kubernetes","name":"k8s","ts_ms":1700000000000,"ts_us":1700000000000000,"ts_ns":1700000000000000000,"ts_from":"exporter","snapshot":"false","db":"prod","schema":"default","table":"pods","group":"","apiVersion":"v1","kind":"Pod","uid":"u1","resourceVersion":"10","sequence":"[\"10\",\"0\"]","stream":"pods"}}
}
