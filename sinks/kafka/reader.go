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

var _ sinks.ReadCloser = (*Reader)(nil)

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

// Close closes the connections.
func (r *Reader) Close() error { return r.sink.Close() }
