package kafka

import "context"

// Identity is the Kafka cluster's own id, whichever brokers were named, and the topics' prefix. It waits until a broker
// can be asked.
func (s *Sink) Identity(ctx context.Context) (identity string, err error) {
	err = s.client.Try(ctx, "ask which Kafka cluster it is", func(ctx context.Context) error {
		id, err := s.client.ID(ctx)
		identity = "kafka:" + id + "/" + s.cfg.TopicPrefix
		return err
	})
	return identity, err
}
