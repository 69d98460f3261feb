package admin

import (
	"context"
	"fmt"
	"strings"

	"kubecdc/sinks/kafka/internal/cluster"
)

// longerPrefix returns the prefix of the log that a topic belongs to, if that prefix begins with this one. Each prefix in use has
// a control topic.
func longerPrefix(prefix, topic string, all []string) string {
	for _, other := range all {
		longer, isControl := strings.CutSuffix(other, ".control")
		if isControl && strings.HasPrefix(longer, prefix+".") && strings.HasPrefix(topic, longer+".") {
			return longer
		}
	}
	return ""
}

// collides returns an error if a topic belongs to the log of a longer prefix, since one topic would have the changes of two logs.
func (t *Topics) collides(ctx context.Context, name string) error {
	all, err := t.names(ctx)
	if err != nil {
		return err
	}
	longer := longerPrefix(t.cfg.TopicPrefix, name, all)
	if longer == "" {
		return nil
	}
	return &cluster.Error{Op: "write to " + name, Err: fmt.Errorf("there is a log of the topic prefix %s: %w", longer,
		cluster.ErrCollides),
		Hint: "set KUBECDC_KAFKA_TOPIC_PREFIX to a prefix that no other one begins with"}
}

// names returns the names of all topics, as of when the first topic was prepared.
func (t *Topics) names(ctx context.Context) (all []string, err error) {
	t.mu.Lock()
	all = t.all
	t.mu.Unlock()
	if all != nil {
		return all, nil
	}
	err = t.client.Try(ctx, "list the topics", func(ctx context.Context) (err error) {
		all, err = t.client.Topics(ctx)
		return err
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = all
	return all, err
}
