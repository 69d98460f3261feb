package batching_test

import (
	"context"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/export/batching"
)

// An idle slot's first change is a batch of its own. The changes that arrive within the linger after it share the next batch.
func ExampleQueue() {
	ctx := context.Background()
	pods := change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	q := batching.New(1000, 1<<20, batching.Limits{MaxChanges: 100, MaxBytes: 1 << 20, Linger: 10 * time.Millisecond})
	send := func(name string, version change.ResourceVersion) {
		c := change.Change{Stream: pods, Op: change.Create, Namespace: "shop", Name: name, ResourceVersion: version}
		if err := q.Send(ctx, change.Item{Stream: pods.ID(), Change: &c, Version: version, Time: time.Now()}); err != nil {
			fmt.Println(err)
		}
	}
	commit := func() {
		b := q.Next(ctx, nil)
		fmt.Printf("%d changes, up to resourceVersion %s\n", len(b.Changes), b.Newest[pods.ID()].ResourceVersion)
		q.Done(b)
	}
	send("a", "1")
	commit()
	send("b", "2")
	send("c", "3")
	commit()
	// Output:
	// 1 changes, up to resourceVersion 1
	// 2 changes, up to resourceVersion 3
}
