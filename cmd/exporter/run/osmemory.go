package run

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The exporter returns memory to the operating system after each burst (the first lists, a relist, a rollout). Without that the
// Go runtime would retain it: a quiet process hardly collects, and returns free memory slowly. GOMEMLIMIT does not help, since it
// suits the live heap of one cluster only.
//
// Returning memory costs two collections, about 20 ms of one core. It is not done under load, nor before enough was allocated to
// be worth it.
const (
	checkEvery = 5 * time.Second
	quietBytes = 8 << 20  // less than this between two checks is quiet
	burstBytes = 32 << 20 // less than this since the last return is not worth it
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
				runtime.GC() // the second collection empties sync.Pools
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
