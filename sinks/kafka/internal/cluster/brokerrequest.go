package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kubecdc/internal/slab"
)

// BrokerRequest is a request to one broker, in a version that the caller chooses. kmsg encodes it, and kafka-go's connection to
// the broker transports it. The answer is a BrokerAnswer.
type BrokerRequest struct {
	kmsg.Request
	To       int32 // broker id, or anyBroker
	ClientID string
	// Transactional requests are only sent over connections whose broker makes transactions by protocol 2. Otherwise the error is
	// ErrOlderTransactions.
	Transactional bool
}

// BrokerAnswer is the answer to a BrokerRequest.
type BrokerAnswer struct{ kmsg.Response }

// ApiKey implements protocol.Message.
func (r *BrokerRequest) ApiKey() protocol.ApiKey { return protocol.ApiKey(r.Key()) }

// ApiKey implements protocol.Message.
func (a BrokerAnswer) ApiKey() protocol.ApiKey { return protocol.ApiKey(a.Key()) }

const anyBroker = -1

// Broker implements protocol.BrokerMessage.
func (r *BrokerRequest) Broker(c protocol.Cluster) (protocol.Broker, error) {
	if r.To == anyBroker {
		return protocol.Broker{ID: anyBroker}, nil
	}
	if b, ok := c.Brokers[r.To]; ok {
		return b, nil
	}
	return protocol.Broker{}, fmt.Errorf("broker %d is not in the cluster", r.To)
}

// Required implements protocol.RawExchanger, like RawExchange.
func (r *BrokerRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange sends the request and reads the answer.
func (r *BrokerRequest) RawExchange(conn io.ReadWriter) (protocol.Message, error) {
	if r.Transactional {
		if err := askedOf(conn).takesProtocol2(conn, r.ClientID); err != nil {
			return nil, err
		}
	}
	answer, err := exchange(conn, r.ClientID, r.Request)
	return BrokerAnswer{answer}, err
}

// exchange sends a request in one write, and reads its answer. A connection has one request at a time, so all have the same
// number.
func exchange(conn io.ReadWriter, clientID string, req kmsg.Request) (kmsg.Response, error) {
	s := slab.New(roomFor(req))
	defer s.Release()
	s.Bytes = kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(s.Bytes, req, 0)
	if _, err := conn.Write(s.Bytes); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > maxAnswer {
		return nil, fmt.Errorf("an answer to request %d of %d bytes", req.Key(), n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(conn, text); err != nil {
		return nil, err
	}
	return decode(req, text[4:])
}

// roomFor returns more bytes than a request with records needs. Records may have several MB, which would be copied again and
// again while the buffer grows.
func roomFor(req kmsg.Request) (size int) {
	if p, ok := req.(*kmsg.ProduceRequest); ok {
		for _, t := range p.Topics {
			for i := range t.Partitions {
				size += len(t.Partitions[i].Records) + 1<<10
			}
		}
	}
	return size
}

// maxAnswer bounds the answers to such requests, which have no records.
const maxAnswer = 16 << 20

// decode parses an answer after its number. ApiVersions has the old header in all versions, and an old broker answers it in
// version 0 (KIP-511).
func decode(req kmsg.Request, text []byte) (kmsg.Response, error) {
	res := req.ResponseKind()
	versions := req.Key() == int16(protocol.ApiVersions)
	if versions && len(text) >= 2 && binary.BigEndian.Uint16(text) == uint16(kafka.UnsupportedVersion) {
		return nil, kafka.UnsupportedVersion
	}
	if res.IsFlexible() && !versions {
		if len(text) == 0 || text[0] != 0 {
			return nil, fmt.Errorf("the header of an answer to request %d has tags", req.Key())
		}
		text = text[1:]
	}
	if err := res.ReadFrom(text); err != nil {
		return nil, fmt.Errorf("decode the answer to request %d in version %d: %w", req.Key(), req.GetVersion(), err)
	}
	return res, nil
}

// ErrOlderTransactions ends a session that makes transactions by protocol 2 once a broker does not. The next session asks all
// brokers again.
var ErrOlderTransactions = errors.New("transactions by protocol 2 (KIP-890) are not made any more")

// These are what a broker must have for protocol 2.
const (
	TransactionalProduce = 12
	TransactionalEnd     = 5
	transactionFeature   = "transaction.version"
	transactionLevel     = 2
)

// apiVersions returns the request for a broker's versions, and for the features that the cluster has agreed on (KIP-584).
func apiVersions() *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "kubecdc", "1"
	return req
}

// lacksProtocol2 returns why a broker does not make transactions by protocol 2, or "" if it does.
func lacksProtocol2(v *kmsg.ApiVersionsResponse) string {
	max := map[int16]int16{}
	for _, k := range v.ApiKeys {
		max[k.ApiKey] = k.MaxVersion
	}
	if max[int16(protocol.Produce)] < TransactionalProduce || max[int16(protocol.EndTxn)] < TransactionalEnd {
		return "is older than Kafka 4.0"
	}
	level := int16(0)
	for _, f := range v.FinalizedFeatures {
		if f.Name == transactionFeature {
			level = f.MaxVersionLevel
		}
	}
	if level < transactionLevel {
		return fmt.Sprintf("has the feature %s %d", transactionFeature, level)
	}
	return ""
}
