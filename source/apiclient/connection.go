package apiclient

import (
	"context"
	"net"
	"time"
)

// A watch that says nothing has nothing to say, or its connection is gone: only a bookmark a minute tells. But over the connection of HTTP/2
// other requests pass, and an answer to one shows that what the server had sent before has come.

// Connection is a connection over which several requests pass at once. Two values are equal if they are of the same.
type Connection struct{ net.Conn }

type connectionKey struct{}

// withConnection records in the Connection which connection a request uses.
func withConnection(ctx context.Context) (context.Context, *Connection) {
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

// answerWithin is how late an answer may come that shows what had happened when it was asked for.
const answerWithin = time.Second

// Confirm asks the API server for a document that costs it nothing. What had happened by asked, and concerns a watch over the connection that is
// returned, has come. The connection is nil if nothing follows.
func (c *Client) Confirm(ctx context.Context) (_ *Connection, asked time.Time) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	ctx, used := withConnection(ctx)
	asked = time.Now()
	body, multiplexed, err := c.ask(ctx, "/version", nil, acceptJSON)
	if err != nil {
		return nil, asked
	}
	_ = body.Close()
	return used.ifShared(multiplexed), asked
}
