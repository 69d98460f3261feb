package change

import "time"

// LogSize is how much a log takes, and how fast it grows. All sizes but Bytes are estimated from samples.
type LogSize struct {
	Bytes   int64          `json:"bytes"`
	Limit   int64          `json:"limitBytes,omitempty"` // above it the oldest changes are removed
	Since   time.Time      `json:"since,omitzero"`       // the log has every change since then
	Daily   int64          `json:"bytesADay,omitempty"`  // written in the last day, without first lists. 0 if it is not known
	Full    time.Time      `json:"full,omitzero"`        // when it reaches the limit at that pace, unless the history ends first
	Largest []ResourceSize `json:"largest,omitempty"`    // up to three resources that take most
}

// ResourceSize is how much the changes of a resource take.
type ResourceSize struct {
	Resource string `json:"resource"`
	Bytes    int64  `json:"bytes"`
}

// Expect sets the limit, and when the log will reach it. Changes older than the history are removed earlier.
func (s *LogSize) Expect(limit int64, history time.Duration, now time.Time) {
	days := history.Hours() / 24
	if s.Limit = limit; limit > 0 && s.Daily > 0 && float64(s.Daily)*days > float64(limit) {
		left := float64(max(limit-s.Bytes, 0)) / float64(s.Daily)
		s.Full = now.Add(time.Duration(min(left, days) * 24 * float64(time.Hour))).UTC()
	}
}
