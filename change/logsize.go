package change

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
)

// LogSize is how much a log takes, with all clusters in it, and how fast it grows. All sizes but Bytes are estimated from
// samples.
type LogSize struct {
	Bytes   int64          `json:"bytes"`
	Limit   int64          `json:"limitBytes,omitempty"` // above it the oldest changes are removed
	Since   time.Time      `json:"since,omitzero"`       // the log has every change since then. Zero if it is not known
	Daily   int64          `json:"bytesADay,omitempty"`  // written in the last day, without first lists. 0 if it is not known
	Full    time.Time      `json:"full,omitzero"`        // when it reaches the limit at that pace, unless the history ends first
	Largest []ResourceSize `json:"largest,omitempty"`    // up to three resources that take most
}

// ResourceSize is how much the changes of a resource take.
type ResourceSize struct {
	Resource string `json:"resource"`
	Bytes    int64  `json:"bytes"`
}

// Estimate sets what takes most, and what was written in the last day if Since is known and an hour ago. A younger log is
// extrapolated. sample returns about how many bytes each resource has, and all that belongs to none (""). The bytes written since
// a time do not count first lists. The data that can be sampled takes so many bytes.
func (s *LogSize) Estimate(
	ctx context.Context, bytes int64, now time.Time,
	sample func(ctx context.Context, since time.Time) (map[string]float64, error),
) error {
	all, err := sample(ctx, time.Time{})
	scale := float64(bytes) / sum(all)
	delete(all, "")
	resources := slices.SortedFunc(maps.Keys(all),
		func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
	for _, resource := range resources[:min(3, len(resources))] {
		s.Largest = append(s.Largest, ResourceSize{Resource: resource, Bytes: int64(all[resource] * scale)})
	}
	if age := min(now.Sub(s.Since), 24*time.Hour); err == nil && len(all) > 0 && !s.Since.IsZero() && age >= time.Hour {
		all, err = sample(ctx, now.Add(-24*time.Hour))
		s.Daily = int64(sum(all) * scale * 24 / age.Hours())
	}
	return err
}

func sum(sizes map[string]float64) (bytes float64) {
	for _, b := range sizes {
		bytes += b
	}
	return bytes
}

// Expect sets the limit, and when the log will reach it. Changes older than the history are removed earlier.
func (s *LogSize) Expect(limit int64, history time.Duration, now time.Time) {
	days := history.Hours() / 24
	if s.Limit = limit; limit > 0 && s.Daily > 0 && float64(s.Daily)*days > float64(limit) {
		left := float64(max(limit-s.Bytes, 0)) / float64(s.Daily)
		s.Full = now.Add(time.Duration(min(left, days) * 24 * float64(time.Hour))).UTC()
	}
}
