package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// After a burst (the first lists of all streams, a relist, a rollout) Go keeps the memory of it for minutes: it collects
// when the heap has grown, and in a process that falls quiet that takes until the two minutes are over after which it
// collects in any case; what it then finds free it returns little by little. So it is told to return all at once, as
// soon as there is quiet. That costs two collections, about 20 ms of one core, and is not done under load, nor again
// before as much was allocated as pays for it.
const (
	lookEvery  = 5 * time.Second
	quietBytes = 8 << 20  // allocated between two looks: less is quiet
	burstBytes = 32 << 20 // allocated since memory was last returned: less is not worth it
)

// giveBack returns memory after bursts until the context ends.
func giveBack(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	b := bursts{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if b.over(allocated()) {
				runtime.GC() // what pools hold goes with the second one
				debug.FreeOSMemory()
			}
		}
	}
}

// bursts tells when one is over, from the bytes that the process has allocated so far, look by look.
type bursts struct{ last, returned uint64 }

func (b *bursts) over(allocated uint64) bool {
	quiet := allocated-b.last < quietBytes
	b.last = allocated
	if !quiet || allocated-b.returned < burstBytes {
		return false
	}
	b.returned = allocated
	return true
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
