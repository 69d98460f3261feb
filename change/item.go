package change

import (
	"context"
	"time"
)

// Item is what a stream emits at a time: a change, a control record, a malformed event, or only a new position.
type Item struct {
	Stream  StreamID
	Change  *Change
	Control *Control
	Raw     *Malformed
	// Version moves the stream's position: every change up to it was sent. An empty Version does not move it.
	Version ResourceVersion
	Time    time.Time
	// Behind is the time after which it happened, if it was read late, or zero.
	Behind time.Time
	// Position replaces Version and Time where the stream ends, or goes on after its end.
	Position *Position
	// Durable is called once everything up to this item is durable, unless it is nil. Its error ends the session.
	Durable func(context.Context) error
}
