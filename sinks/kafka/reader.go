package kafka

import (
	"context"
	"errors"

	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/reader"
)

// Reader is a sinks.Reader of the topics.
type Reader struct {
	*reader.Reader
	sink *Sink
}

var _ sinks.Copier = (*Reader)(nil)

// OpenReader returns a reader of the topics of a sink with this configuration. ClusterUID may be empty.
func OpenReader(ctx context.Context, cfg Config) (*Reader, error) {
	s, err := newSink(cfg, true)
	if err != nil {
		return nil, err
	}
	if err := s.Ping(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Reader{s.reader, s}, nil
}

// Identity has the sink's identity, and the id of the control topic. Somebody may have made that again.
func (r *Reader) Identity(ctx context.Context) (string, error) {
	identity, err := r.sink.Identity(ctx)
	if err != nil {
		return "", err
	}
	id, err := r.ControlTopicID(ctx)
	return identity + "/" + id, err
}

// Close closes the connections.
func (r *Reader) Close() error { return r.sink.Close() }
