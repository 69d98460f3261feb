package cluster

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kubecdc/sinks"
)

// dial makes a connection that is asked for its cluster.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.connections.Add(1)
	return &askedConn{Conn: conn, client: c, address: address}, nil
}

// Connections returns how many connections were made. A broker loses records, or is replaced by another, only if its connections
// end. So it can have lost only what was written before the last connection.
func (c *Client) Connections() int64 { return c.connections.Load() }

// checkID records the id of the first cluster, and returns an error for another id.
func (c *Client) checkID(address, id string) error {
	if c.id.CompareAndSwap(nil, &id) || *c.id.Load() == id {
		return nil
	}
	const cluster = "Kafka cluster "
	c.moved.CompareAndSwap(nil, &sinks.MovedError{Address: address, Known: cluster + *c.id.Load(), Found: cluster + id})
	return c.moved.Load()
}

// askedConn asks the broker for its cluster's id before the first request. So no request reaches another cluster, whatever view
// of the cluster it follows. The login, which must come first, is sent before. kafka-go has one request at a time on a
// connection.
type askedConn struct {
	net.Conn
	client  *Client
	address string
	asked   bool
	takes   bool // its broker makes transactions by protocol 2
}

// askedAddr leads from kafka-go's connection to the askedConn below it.
type askedAddr struct {
	net.Addr
	conn *askedConn
}

// LocalAddr returns an askedAddr.
func (a *askedConn) LocalAddr() net.Addr { return askedAddr{a.Conn.LocalAddr(), a} }

// askedOf returns the askedConn below a connection of kafka-go.
func askedOf(conn any) *askedConn { return conn.(net.Conn).LocalAddr().(askedAddr).conn }

// takesProtocol2 asks the broker once, over kafka-go's connection, whether it makes transactions by protocol 2. So no request of
// protocol 2 reaches an older broker, even if that has just replaced another. The error is ErrOlderTransactions.
func (a *askedConn) takesProtocol2(conn io.ReadWriter, clientID string) error {
	if a.takes {
		return nil
	}
	answer, err := exchange(conn, clientID, apiVersions())
	if err != nil {
		return err
	}
	if why := lacksProtocol2(answer.(*kmsg.ApiVersionsResponse)); why != "" {
		return Final(fmt.Errorf("%w: the broker at %s %s", ErrOlderTransactions, a.address, why))
	}
	a.takes = true
	return nil
}

// beforeLogin are the requests that a broker answers before a login.
var beforeLogin = map[protocol.ApiKey]bool{
	new(apiversions.Request).ApiKey(): true, new(saslhandshake.Request).ApiKey(): true,
	new(saslauthenticate.Request).ApiKey(): true,
}

// askVersion is a version of the request whose answer has the cluster's id. Every supported broker knows this version.
const askVersion = 5

// Write gets the beginning of a request: its size, and its key.
func (a *askedConn) Write(b []byte) (int, error) {
	if !a.asked && len(b) >= 6 && !beforeLogin[protocol.ApiKey(binary.BigEndian.Uint16(b[4:]))] {
		m, err := protocol.RoundTrip(a.Conn, askVersion, 0, a.client.ClientID, &metadata.Request{TopicNames: []string{}})
		if err == nil {
			err = a.client.checkID(a.address, m.(*metadata.Response).ClusterID)
		}
		if err != nil {
			return 0, fmt.Errorf("ask %s which cluster it is of: %w", a.address, err)
		}
		a.asked = true
	}
	return a.Conn.Write(b)
}
