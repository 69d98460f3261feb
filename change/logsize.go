package change

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// LogSize is how much a log takes, with all clusters in it, and how fast it grows. All sizes but Bytes are estimated from samples.
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

const (
	// leastAge is the age at which a log shows a pace.
	leastAge = time.Hour
	largest  = 3
)

// LogSample is what a part of a log takes, as estimated by some of it.
type LogSample struct {
	bytes, listed float64 // listed: of first lists
	byResource    map[string]float64
}

// Add adds what changes of a resource take, or what takes space for all resources together (an empty resource).
func (s *LogSample) Add(resource string, listed bool, bytes float64) {
	if s.bytes += bytes; listed {
		s.listed += bytes
	}
	if s.byResource == nil {
		s.byResource = map[string]float64{}
	}
	if resource != "" {
		s.byResource[resource] += bytes
	}
}

// Estimate sets what takes most, and what was written in the last day if the log's age is known. sample samples what was written since a
// time. All that it can sample takes so many bytes. A log younger than a day is extrapolated.
func (s *LogSize) Estimate(bytes int64, now time.Time, sample func(since time.Time) (*LogSample, error)) error {
	all, err := sample(time.Time{})
	if err != nil || all.bytes == 0 {
		return err
	}
	scale := float64(bytes) / all.bytes
	resources := slices.SortedFunc(maps.Keys(all.byResource), func(a, b string) int {
		return cmp.Or(cmp.Compare(all.byResource[b], all.byResource[a]), cmp.Compare(a, b))
	})
	for _, resource := range resources[:min(largest, len(resources))] {
		s.Largest = append(s.Largest, ResourceSize{Resource: resource, Bytes: int64(all.byResource[resource] * scale)})
	}
	age := min(now.Sub(s.Since), 24*time.Hour)
	if s.Since.IsZero() || age < leastAge {
		return nil
	}
	day, err := sample(now.Add(-24 * time.Hour))
	if err == nil {
		s.Daily = int64((day.bytes - day.listed) * scale * 24 / age.Hours())
	}
	return err
}

// Expect sets the limit, and when the log will reach it. Changes older than the history are removed earlier.
func (s *LogSize) Expect(limit int64, history time.Duration, now time.Time) {
	days := history.Hours() / 24
	if s.Limit = limit; limit > 0 && s.Daily > 0 && float64(s.Daily)*days > float64(limit) {
		left := float64(max(limit-s.Bytes, 0)) / float64(s.Daily)
		s.Full = now.Add(time.Duration(min(left, days) * 24 * float64(time.Hour))).UTC()
	}
}
