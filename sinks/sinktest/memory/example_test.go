package memory_test

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/sinktest/memory"
)

// An owner writes a batch and dies before the checkpoint has it. The next owner finds it in the tail of the log.
func Example() {
	ctx, log := context.Background(), memory.NewLog()
	stream := change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")

	first, err := memory.New(log, "prod", "uid-of-prod").Open(ctx, 0, 1, sinks.Durable{})
	if err != nil {
		panic(err)
	}
	_, err = first.Log.Write(ctx, &change.Batch{Epoch: 1, Seq: 1,
		Changes: []change.Change{{Stream: stream, Op: change.Create, Namespace: "default", Name: "web", ResourceVersion: "10"}}})
	if err != nil {
		panic(err)
	}

	next, err := memory.New(log, "prod", "uid-of-prod").Open(ctx, 0, 2, sinks.Durable{})
	if err != nil {
		panic(err)
	}
	err = next.Tail(ctx, func(r *sinks.Recovered) error {
		fmt.Printf("batch %d: %s at %s\n", r.Batch.Seq, r.Batch.Changes[0].Key(), r.Batch.Changes[0].ResourceVersion)
		return nil
	})
	if err != nil {
		panic(err)
	}
	_, err = first.Log.Write(ctx, &change.Batch{Epoch: 1, Seq: 2})
	fmt.Println("the first owner:", err)
	// Output:
	// batch 1: default/web at 10
	// the first owner: the sink has fenced this writer of the slot
}
