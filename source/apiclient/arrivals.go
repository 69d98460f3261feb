package apiclient

import (
	"io"
	"time"

	"kubecdc/internal/wait"
)

// arrivals is the body of a watch. It finds out for how long the bytes of an event may have waited to be read. While the output
// takes nothing, or the process does not run, events wait in buffers of the connection. So events may have arrived before they
// are read.
//
// A read that has to wait returns bytes that have just come, unless the process was stopped during the read. A read that need not
// wait returns bytes that came after the buffer was last seen to be empty.
type arrivals struct {
	from        io.Reader
	multiplexed bool      // a short read then shows that the buffer is empty, else only a read that waits does
	settled     time.Time // from when on an empty buffer shows that all has come
	wasEmpty    bool      // after the last read
	empty       time.Time // when all that had happened was last known to be read, if that is known
	since       time.Time // the bytes of the last read came after it
	first       time.Time // the first bytes of the line came after it
}

const (
	waited   = 5 * time.Millisecond // in a read: nothing was there
	settling = time.Second          // how long a server, or a network, takes to send what has waited there
)

func newArrivals(body io.Reader, multiplexed bool) *arrivals {
	return &arrivals{from: body, multiplexed: multiplexed, settled: time.Now().Add(settling), wasEmpty: true}
}

// restart begins anew, with a buffer in which what happened since current may wait.
func (a *arrivals) restart(current time.Time) {
	a.empty, a.since, a.settled = current, current, time.Now().Add(settling)
}

// line begins another line. begun means that the last read has returned the beginning of the line.
func (a *arrivals) line(begun bool) {
	if a.first = (time.Time{}); begun {
		a.first = a.since
	}
}

func (a *arrivals) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := a.from.Read(p)
	now := time.Now()
	if now.Sub(began) >= waited && a.wasEmpty && !now.Before(a.settled) {
		a.empty = now
		if from, stalled := wait.StalledSince(began); stalled {
			a.empty, a.settled = from, now.Add(settling)
		}
	}
	if a.since = a.empty; a.first.IsZero() {
		a.first = a.since
	}
	if a.wasEmpty = !a.multiplexed || n < len(p); a.wasEmpty && a.multiplexed && !now.Before(a.settled) {
		a.empty = now
	}
	return n, err
}
