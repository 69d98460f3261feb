package synthetic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// chunk is about how many bytes of events are written at once.
const chunk = 64 << 10

// watch sends events as they are requested. A version that is not the newest is answered by a 410, since there is no history.
func (c *collection) watch(w http.ResponseWriter, r *http.Request, bookmarks time.Duration) {
	w.Header().Set("Content-Type", "application/json")
	flush := func() { _ = http.NewResponseController(w).Flush() }
	flush()
	ctx := r.Context()
	defer context.AfterFunc(ctx, c.wake)()
	since, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	if bookmarks > 0 {
		defer c.everySoOften(bookmarks)()
	}
	marked := time.Now()
	for {
		buffer, more := c.nextEvents(ctx, since)
		if len(buffer) == 0 && more && bookmarks > 0 && time.Since(marked) > bookmarks*9/10 {
			buffer = c.bookmark()
			marked = time.Now()
		}
		if _, err := w.Write(buffer); err != nil || ctx.Err() != nil {
			return
		}
		flush()
		if !more {
			return
		}
		since = 0 // it is in step now
	}
}

func (c *collection) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed.Broadcast()
}

// everySoOften wakes the watch for its bookmark, at another moment than other watches.
func (c *collection) everySoOften(period time.Duration) (stop func()) {
	var timer *time.Timer
	timer = time.AfterFunc(rand.N(period), func() { c.wake(); timer.Reset(period) })
	return func() { timer.Stop() }
}

// nextEvents waits until there is something to send. It returns nothing after a wake that brought no event.
func (c *collection) nextEvents(ctx context.Context, since uint64) (buffer []byte, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since != 0 && since < c.version {
		c.expired = false
		return gone(since), false
	}
	if c.pending == 0 && !c.expired && ctx.Err() == nil && since == 0 {
		c.changed.Wait()
	}
	if c.expired {
		c.expired = false
		return gone(c.version), false
	}
	for c.pending > 0 && len(buffer) < chunk {
		buffer = c.appendEvent(buffer)
		c.pending--
	}
	return buffer, true
}

func (c *collection) bookmark() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d","creationTimestamp":null}}}`+"\n", c.version)
}

func gone(version uint64) []byte {
	return fmt.Appendf(nil, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: %d","reason":"Expired","code":410}}`+"\n", version)
}
