package apiclient

import (
	"context"
	"net"
	"time"
)

// A watch that says nothing has nothing to say, or its connection is gone: only a bookmark a minute tells. But over the
// connection of HTTP/2 other requests pass. An answer to any of them shows that what the server had sent before has come.

// Connection is a connection over which several requests pass at once.
type Connection struct {
	net.Conn
	opened time.Time // when a watch over it was open, or zero
}

// Shows reports whether an answer over other, to a request of a later time, shows what has come over c.
func (c *Connection) Shows(other *Connection, asked time.Time) bool {
	return c != nil && other != nil && c.Conn == other.Conn && c.opened.Before(asked)
}

type connectionKey struct{}

// withConnection records in the Connection which connection a request uses.
func withConnection(ctx context.Context) (context.Context, *Connection) {
	if c, asked := ctx.Value(connectionKey{}).(*Connection); asked {
		return ctx, c
	}
	c := &Connection{}
	return context.WithValue(ctx, connectionKey{}, c), c
}

// ifShared returns the connection if other requests use it too, else nil.
func (c *Connection) ifShared(multiplexed bool) *Connection {
	if c.Conn == nil || !multiplexed {
		return nil
	}
	return c
}

// answerWithin is how late an answer may come and still show what had happened when the request was made.
const answerWithin = time.Second

// mostConnections limits how many connections are remembered. A few are in use.
const mostConnections = 16

// answered records an answer over a connection, which may be nil.
func (s *checks) answered(c *Connection, asked time.Time) {
	if c == nil || time.Since(asked) > answerWithin {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.answers) >= mostConnections {
		clear(s.answers)
	}
	if asked.After(s.answers[c.Conn]) {
		s.answers[c.Conn] = asked
	}
}

// Answered returns the time of the newest request that the API server has answered over the connection, or zero. A watch that was
// open on the connection has received everything that had happened by that time.
func (c *Client) Answered(over *Connection) time.Time {
	if over == nil {
		return time.Time{}
	}
	c.checks.mu.Lock()
	defer c.checks.mu.Unlock()
	return c.checks.answers[over.Conn]
}

// Confirm asks the API server for a document that costs it nothing. A watch over the returned connection has received everything
// that had happened at the time asked. The connection is nil if the answer does not show that.
func (c *Client) Confirm(ctx context.Context) (_ *Connection, asked time.Time) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	ctx, used := withConnection(ctx)
	asked = time.Now()
	body, from, err := c.ask(ctx, "/version", nil, acceptJSON)
	if err != nil {
		return nil, asked
	}
	c.road.record(time.Since(asked))
	_ = body.Close()
	return used.ifShared(from.multiplexed), asked
}
