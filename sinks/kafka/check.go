package kafka

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createtopics"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/producer"
)

// Check tries everything that an export of the resources needs, restarts included: to describe, read and write each topic that
// exists, to create each that does not, and a transaction, which it aborts. It creates nothing and writes no record. (An aborted
// transaction leaves a marker in each partition, which consumers do not see.) The error lists all that is wrong.
func (s *Sink) Check(ctx context.Context, resources []change.Resource) (r sinks.Report, err error) {
	c := &checking{sink: s, denied: map[right][]string{}}
	names := []string{change.ControlTopic(s.cfg.TopicPrefix), change.DeadLetterTopic(s.cfg.TopicPrefix)}
	for _, r := range resources {
		names = append(names, change.Topic(s.cfg.TopicPrefix, r))
	}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return c.describe(ctx, names) },
		c.make, c.read, c.write,
		func(ctx context.Context) error { return c.limits(ctx, len(resources)) },
	} {
		if err := step(ctx); err != nil {
			c.wrong = append(c.wrong, err)
			break
		}
	}
	r.Warnings, err = c.warnings, errors.Join(append(c.wrong, c.missingRights()...)...)
	if err == nil {
		r.Retention = s.retentionOrWhyNot(ctx)
	}
	return r, err
}

func (s *Sink) retentionOrWhyNot(ctx context.Context) []string {
	differences, err := s.Retention(ctx)
	if err != nil {
		return []string{"the retention of the topics can't be read: " + err.Error()}
	}
	return differences
}

// checking is one run of Check.
type checking struct {
	sink     *Sink
	existing []existingTopic
	missing  []string
	denied   map[right][]string // topics
	wrong    []error
	warnings []string
}

type existingTopic struct {
	name     string
	replicas int // of the partition that has the fewest
}

// right is an operation of an ACL.
type right string

const (
	toDescribe right = "Describe" // which the others imply: if it is missing, all are
	toCreate   right = "Create"
	toRead     right = "Read"
	toWrite    right = "Write"
)

// The rights in TopicAuthorizedOperations (KIP-430), which brokers send for topics that do not exist too.
const (
	notSent  = math.MinInt32
	readBit  = 1 << 3
	writeBit = 1 << 4
)

// note notes an error about a topic: a missing right, or something else.
func (c *checking) note(r right, topic, op string, err error) {
	switch {
	case err == nil:
	case errors.Is(err, kafka.TopicAuthorizationFailed), errors.Is(err, kafka.ClusterAuthorizationFailed):
		c.denied[r] = append(c.denied[r], topic)
	default:
		c.wrong = append(c.wrong, c.sink.client.NewError(op+" topic "+topic, err))
	}
}

// describe finds out which topics exist.
func (c *checking) describe(ctx context.Context, names []string) error {
	topics, err := c.sink.client.Describe(ctx, names)
	if err != nil {
		return c.sink.client.NewError("describe the topics "+c.sink.cfg.TopicPrefix+".*", err)
	}
	for _, t := range topics {
		err := cluster.CodeError(t.ErrorCode)
		if errors.Is(err, kafka.UnknownTopicOrPartition) {
			c.noteMissing(t.Name, t.TopicAuthorizedOperations)
			continue
		}
		c.note(toDescribe, t.Name, "describe", err)
		if err != nil || len(t.Partitions) == 0 {
			continue
		}
		seen := existingTopic{t.Name, len(t.Partitions[0].ReplicaNodes)}
		for _, p := range t.Partitions {
			seen.replicas = min(seen.replicas, len(p.ReplicaNodes))
		}
		c.existing = append(c.existing, seen)
	}
	return nil
}

// noteMissing notes a topic that does not exist, and whether it could be read and written to.
func (c *checking) noteMissing(topic string, rights int32) {
	c.missing = append(c.missing, topic)
	if rights == notSent {
		return
	}
	if rights&readBit == 0 {
		c.denied[toRead] = append(c.denied[toRead], topic)
	}
	if rights&writeBit == 0 {
		c.denied[toWrite] = append(c.denied[toWrite], topic)
	}
}

// make tests whether the missing topics could be created.
func (c *checking) make(ctx context.Context) error {
	if len(c.missing) == 0 {
		return nil
	}
	var topics []createtopics.RequestTopic
	for _, name := range c.missing {
		topics = append(topics, c.sink.plan(name).request(name, &c.sink.cfg))
	}
	var answers []createtopics.ResponseTopic
	err := c.sink.client.Try(ctx, "try to create topics", func(ctx context.Context) (err error) {
		answers, err = c.sink.client.CreateTopics(ctx, true, topics...)
		return err
	})
	for _, t := range answers {
		if err := cluster.CodeError(t.ErrorCode); !errors.Is(err, kafka.TopicAlreadyExists) {
			c.note(toCreate, t.Name, "create", cluster.WithText(err, t.ErrorMessage))
		}
	}
	return err
}

// read fetches from each topic, beyond its end.
func (c *checking) read(ctx context.Context) error {
	for _, t := range c.existing {
		err := consumer.Readable(ctx, c.sink.client, t.name)
		if ctx.Err() != nil {
			return err
		}
		c.note(toRead, t.name, "read", err)
	}
	return nil
}

// write adds the topics to a transaction and aborts it. If some may not be written to, it tries again without them.
func (c *checking) write(ctx context.Context) error {
	who := "check-" + rand.Text()[:8] // so that checks of several replicas do not fence each other
	left := slices.Clone(c.existing)
	for {
		var partitions []*producer.Partition
		for _, t := range left {
			partitions = append(partitions, producer.NewTopic(t.name, 1, 0).Partitions[0])
		}
		err := c.sink.tryTransaction(ctx, who, partitions)
		var denied producer.DeniedTopics
		switch {
		case errors.Is(err, kafka.TransactionalIDAuthorizationFailed):
			c.wrong = append(c.wrong, fmt.Errorf("write in a transaction: not allowed with the transactional ids %s*: grant Write on them:\n%s",
				c.sink.transactionalPrefix(), c.grant("--transactional-id", c.sink.transactionalPrefix(), toWrite)))
			return nil
		case !errors.As(err, &denied):
			return err
		}
		c.denied[toWrite] = append(c.denied[toWrite], denied...)
		left = slices.DeleteFunc(left, func(t existingTopic) bool { return slices.Contains(denied, t.name) })
	}
}

// leastBatch is more than the stub of an object with the longest names takes.
const leastBatch = 4 << 10

// limits reads the settings of the topics that exist.
func (c *checking) limits(ctx context.Context, resources int) error {
	if len(c.existing) == 0 {
		return nil
	}
	names := make([]string, len(c.existing))
	for i, t := range c.existing {
		names[i] = t.name
	}
	configs, unread, err := c.sink.client.TopicConfigs(ctx, names, maxMessageBytes, "min.insync.replicas", cleanupPolicy)
	if err != nil {
		return c.sink.client.NewError("read the settings of topics", err)
	}
	if len(unread) > 0 {
		c.warnings = append(c.warnings, fmt.Sprintf("the settings of %s may not be read (DescribeConfigs): Kafka's default for max.message.bytes is assumed, and smaller record batches are sent after one that a broker refuses",
			list(unread)))
	}
	for _, t := range c.existing {
		if settings := configs[t.name]; settings != nil {
			c.suits(t, settings, resources)
		}
	}
	return nil
}

// suits compares the settings of a topic with what is written to it.
func (c *checking) suits(t existingTopic, settings map[string]string, resources int) {
	wrong := func(format string, args ...any) {
		c.wrong = append(c.wrong, fmt.Errorf("topic %s: "+format, append([]any{t.name}, args...)...))
	}
	control := t.name == change.ControlTopic(c.sink.cfg.TopicPrefix)
	least := leastBatch + c.sink.encodings[c.sink.cfg.Encoding].NewEncoder(change.Envelope{}).Overhead()
	if control {
		least += resources << 10 // a batch record has the positions of all streams, and the offsets of its records
	}
	if limit, err := strconv.Atoi(settings[maxMessageBytes]); err == nil && limit < least {
		wrong("max.message.bytes is %d, and a record may need %d: raise it", limit, least)
	}
	if insync, err := strconv.Atoi(settings["min.insync.replicas"]); err == nil && insync > t.replicas {
		wrong("min.insync.replicas is %d, and it has %d replicas, so it takes no record: lower it, or add replicas", insync, t.replicas)
	}
	compacted := strings.Contains(settings[cleanupPolicy], "compact")
	if compacted && (control || t.name == change.DeadLetterTopic(c.sink.cfg.TopicPrefix)) {
		wrong("cleanup.policy is %s, which would remove records that are needed: set it to delete", settings[cleanupPolicy])
	}
}

// missingRights returns an error for each missing right, with the command that grants it.
func (c *checking) missingRights() (errs []error) {
	for _, r := range []struct {
		op   string
		need []right
	}{
		{"describe", []right{toDescribe, toCreate, toRead, toWrite}}, {"create", []right{toCreate}},
		{"read, which each start needs,", []right{toRead}}, {"write to", []right{toWrite}},
	} {
		if topics := c.denied[r.need[0]]; len(topics) > 0 {
			errs = append(errs, fmt.Errorf("%s %s: not allowed: grant %s on topics %s.*:\n%s", r.op, list(topics), join(r.need, ", "),
				c.sink.cfg.TopicPrefix, c.grant("--topic", c.sink.cfg.TopicPrefix+".", r.need...)))
		}
	}
	return errs
}

// grant is the command that grants rights.
func (c *checking) grant(kind, prefix string, need ...right) string {
	user := cmp.Or(c.sink.cfg.SASL.Username, "NAME")
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal 'User:%s' --operation %s %s '%s' --resource-pattern-type prefixed",
		c.sink.cfg.Brokers[0], user, join(need, " --operation "), kind, prefix)
}

func join(rights []right, between string) string {
	var texts []string
	for _, r := range rights {
		texts = append(texts, string(r))
	}
	return strings.Join(texts, between)
}

// list names the first few, and says how many more there are.
func list(names []string) string {
	const most = 5
	slices.Sort(names)
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
