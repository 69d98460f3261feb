package who

import (
	"fmt"
	"time"

	"kubecdc/sinks"
)

// Unmatched counts the changes without a matching audit record, for the time that audit records cover. Their events were not
// delivered, or the audit policy excludes such requests.
type Unmatched struct {
	Changes, Total int
	first, last    time.Time // when the exporter saw the first and the last one
}

// Count adds a change and its requester. It skips changes that are newer than the last records, because their events may still
// arrive.
func (u *Unmatched) Count(q *Requests, l *sinks.Logged, requester *Who) {
	if requester == nil || l.Gap != "" || l.Time.Before(q.Coverage.Since) || l.Time.After(q.Coverage.Last.Add(-longest)) {
		return
	}
	if u.Total++; requester.Grade != Manager && requester.Grade != Unknown {
		return
	}
	if u.Changes++; u.Changes == 1 || l.Time.Before(u.first) {
		u.first = l.Time
	}
	if l.Time.After(u.last) {
		u.last = l.Time
	}
}

// Text says how many changes have no audit record, and when they were seen.
func (u *Unmatched) Text(clock func(time.Time) string) string {
	return fmt.Sprintf("no audit event fits %d of %d changes, between %s and %s", u.Changes, u.Total, clock(u.first),
		clock(u.last))
}
