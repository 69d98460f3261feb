package kafka

import (
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/createtopics"
)

// kafka-go waits for a topic to be seen that was made, also where it was made only to try. An answer of another type
// passes: see topic_request.go.
type tryToMake struct{ request createtopics.Request }

type madeOrNot struct{ *createtopics.Response }

var (
	_ protocol.Splitter = (*tryToMake)(nil)
	_ protocol.Merger   = (*tryToMake)(nil)
)

func (r *tryToMake) ApiKey() protocol.ApiKey { return r.request.ApiKey() }

func (r *tryToMake) Split(protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	return []protocol.Message{&r.request}, r, nil
}

func (r *tryToMake) Merge(_ []protocol.Message, results []any) (protocol.Message, error) {
	m, err := protocol.Result(results[0])
	if err != nil {
		return nil, err
	}
	return madeOrNot{m.(*createtopics.Response)}, nil
}
