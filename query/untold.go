package query

import (
	"fmt"
	"time"

	"kubecdc/sinks"
)

// Untold counts the changes that no audit record fits, of those that have come while there are records: their events were not delivered, or
// the audit policy leaves such requests out.
type Untold struct {
	Changes, Of int
	first, last time.Time // when the exporter saw them
}

// Count adds a change with what is known of who made it. The event of one that is newer than the last records may be under way.
func (u *Untold) Count(q *Requests, l *sinks.Logged, by *Who) {
	if by == nil || l.Gap != "" || l.Time.Before(q.Coverage.Since) || l.Time.After(q.Coverage.Last.Add(-longest)) {
		return
	}
	if u.Of++; by.Grade != Manager && by.Grade != Unknown {
		return
	}
	if u.Changes++; u.Changes == 1 || l.Time.Before(u.first) {
		u.first = l.Time
	}
	if l.Time.After(u.last) {
		u.last = l.Time
	}
}

func (u *Untold) String() string {
	return fmt.Sprintf("no audit event fits %d of %d changes, between %s and %s", u.Changes, u.Of, u.first.UTC().Format(time.RFC3339),
		u.last.UTC().Format(time.RFC3339))
}
