package run

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// After a burst (the first lists of all streams, a relist, a rollout) the Go runtime keeps its memory: a process that falls
// quiet hardly collects, and what a collection finds free goes back to the operating system little by little. GOMEMLIMIT does
// not help, since it can only be set for the live heap of one cluster. So the exporter returns memory
// to the operating system as soon as a burst is over. That costs two collections, about 20 ms of one core; it is not done
// under load, nor again before enough was allocated to be worth it.
const (
	checkEvery = 5 * time.Second
	quietBytes = 8 << 20  // allocated between two checks: less is quiet
	burstBytes = 32 << 20 // allocated since memory was last returned: less is not worth it
)

// returnMemory returns memory to the operating system after bursts, until the context ends.
func returnMemory(ctx context.Context) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	b := burst{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if b.over(allocated()) {
				runtime.GC() // sync.Pools are emptied by the second collection
				debug.FreeOSMemory()
			}
		}
	}
}

// burst detects the end of a burst from the bytes that the process has allocated up to each check.
type burst struct{ last, returned uint64 }

func (b *burst) over(allocated uint64) bool {
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
