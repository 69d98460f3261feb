package cluster

import (
	"context"

	"github.com/segmentio/kafka-go/protocol"
)

// direct sends a request to a broker without what kafka-go makes of such a request and its answer: it answers a question about
// topics from its own view of the cluster, in which a topic that may not be described looks as if it did not exist. A broker
// tells the two apart. kafka-go sends on what is split, even into one part, and knows an answer by its type.
func (c *Client) direct(ctx context.Context, m protocol.Message) (protocol.Message, error) {
	answer, err := c.RoundTrip(ctx, &directRequest{m})
	if err != nil {
		return nil, err
	}
	return answer.(directAnswer).Message, nil
}

type directRequest struct{ protocol.Message }

type directAnswer struct{ protocol.Message }

var (
	_ protocol.Splitter = (*directRequest)(nil)
	_ protocol.Merger   = (*directRequest)(nil)
)

func (r *directRequest) Split(protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	return []protocol.Message{r.Message}, r, nil
}

func (r *directRequest) Merge(_ []protocol.Message, results []any) (protocol.Message, error) {
	m, err := protocol.Result(results[0])
	if err != nil {
		return nil, err
	}
	return directAnswer{m}, nil
}
