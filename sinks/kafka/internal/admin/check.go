package admin

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
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/createtopics"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/encoding"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/settings"
)

// Check tries all that an export of the resources needs, restarts included. It describes, reads and writes each existing topic,
// creates each missing one, and begins a transaction, which it aborts. These requests create nothing and write no record. (An
// aborted transaction leaves a marker in each partition, which consumers do not see.) Its error lists all that is wrong.
func (a *Admin) Check(ctx context.Context, resources []change.Resource) (r sinks.Report, err error) {
	c := &checking{Admin: a, denied: map[right][]string{}}
	names := []string{change.ControlTopic(a.cfg.TopicPrefix), change.DeadLetterTopic(a.cfg.TopicPrefix)}
	if a.cfg.Audit {
		names = append(names, change.AuditTopic(a.cfg.TopicPrefix))
	}
	for _, r := range resources {
		names = append(names, change.Topic(a.cfg.TopicPrefix, r))
	}
	for _, step := range []func(context.Context) error{
		c.version, c.protocol,
		func(ctx context.Context) error { return c.describe(ctx, names) },
		func(ctx context.Context) error { return c.collisions(ctx, names) },
		c.make, c.read, c.write,
		func(ctx context.Context) error { return c.limits(ctx, len(resources)) },
		func(ctx context.Context) error { return a.checkEncoding(ctx, resources) },
	} {
		if err := step(ctx); err != nil {
			c.wrong = append(c.wrong, err)
			break
		}
	}
	r.How = c.how
	r.Warnings, err = c.warnings, errors.Join(append(c.wrong, c.missingRights()...)...)
	if err == nil {
		r.Retention = a.retentionOrWhyNot(ctx)
	}
	return r, err
}

func (a *Admin) checkEncoding(ctx context.Context, resources []change.Resource) error {
	if e, ok := a.encodings[a.cfg.Encoding].(encoding.Checker); ok {
		return e.Check(ctx, a.cfg.TopicPrefix, resources)
	}
	return nil
}

func (a *Admin) retentionOrWhyNot(ctx context.Context) []string {
	differences, err := a.Retention(ctx)
	if err != nil {
		return []string{"the retention of the topics can't be read: " + err.Error()}
	}
	return differences
}

// checking is one run of Check.
type checking struct {
	*Admin
	existing []existingTopic
	missing  []string
	denied   map[right][]string // topics
	wrong    []error
	warnings []string
	how      string
}

type existingTopic struct {
	name     string
	replicas int // replicas in the partition with the fewest
}

func names(topics []existingTopic) (all []string) {
	for _, t := range topics {
		all = append(all, t.name)
	}
	return all
}

// These are rights in TopicAuthorizedOperations (KIP-430), which brokers also send for topics that do not exist.
const (
	notSent  = math.MinInt32
	readBit  = 1 << 3
	writeBit = 1 << 4
)

// addError records an error about a topic: a missing right, or something else.
func (c *checking) addError(r right, topic, op string, err error) {
	switch {
	case err == nil:
	case errors.Is(err, kafka.TopicAuthorizationFailed), errors.Is(err, kafka.ClusterAuthorizationFailed):
		c.denied[r] = append(c.denied[r], topic)
	default:
		c.wrong = append(c.wrong, c.client.NewError(op+" topic "+topic, err))
	}
}

// version checks that the brokers are new enough: the sink's transactions need AddPartitionsToTxn in version 3.
func (c *checking) version(ctx context.Context) error {
	m, err := c.client.RoundTrip(ctx, &apiversions.Request{})
	if err != nil {
		return c.client.NewError("ask a broker for its versions", err)
	}
	for _, key := range m.(*apiversions.Response).ApiKeys {
		if key.ApiKey == int16(protocol.AddPartitionsToTxn) && key.MaxVersion < 3 {
			return errors.New("the brokers are older than Kafka 2.8, which is needed: upgrade them")
		}
	}
	return nil
}

// protocol finds out which protocol transactions use.
func (c *checking) protocol(ctx context.Context) error {
	if c.cfg.Delivery != settings.ExactlyOnce {
		return nil
	}
	if !c.cfg.Protocol2 {
		c.how = "transactions by protocol 1"
		return nil
	}
	why, err := c.client.LacksProtocol2(ctx)
	c.how = "transactions by protocol 2"
	if why != "" {
		c.how = "transactions by protocol 1, since " + why
	}
	return err
}

// collisions finds topics that belong to another log.
func (c *checking) collisions(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := c.topics.collides(ctx, name); err != nil {
			c.wrong = append(c.wrong, err)
		}
	}
	return ctx.Err()
}

// describe finds out which topics exist.
func (c *checking) describe(ctx context.Context, names []string) error {
	topics, err := c.client.Describe(ctx, names)
	if err != nil {
		return c.client.NewError("describe the topics "+c.cfg.TopicPrefix+".*", err)
	}
	for _, t := range topics {
		err := cluster.CodeError(t.ErrorCode)
		if errors.Is(err, kafka.UnknownTopicOrPartition) {
			c.addMissing(*t.Topic, t.AuthorizedOperations)
			continue
		}
		c.addError(toDescribe, *t.Topic, "describe", err)
		if err != nil || len(t.Partitions) == 0 {
			continue
		}
		seen := existingTopic{*t.Topic, len(t.Partitions[0].Replicas)}
		for _, p := range t.Partitions {
			seen.replicas = min(seen.replicas, len(p.Replicas))
		}
		c.existing = append(c.existing, seen)
	}
	return nil
}

// addMissing records a topic that does not exist, and whether it could be read and written.
func (c *checking) addMissing(topic string, rights int32) {
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
		topics = append(topics, c.topics.plan(name).request(name, c.cfg))
	}
	var answers []createtopics.ResponseTopic
	err := c.client.Try(ctx, "try to create topics", func(ctx context.Context) (err error) {
		answers, err = c.client.CreateTopics(ctx, true, topics...)
		return err
	})
	for _, t := range answers {
		if err := cluster.CodeError(t.ErrorCode); !errors.Is(err, kafka.TopicAlreadyExists) {
			c.addError(toCreate, t.Name, "create", cluster.WithText(err, t.ErrorMessage))
		}
	}
	return err
}

// read fetches from each topic, after its end.
func (c *checking) read(ctx context.Context) error {
	for _, t := range c.existing {
		err := consumer.Readable(ctx, c.client, t.name)
		if ctx.Err() != nil {
			return err
		}
		c.addError(toRead, t.name, "read", err)
	}
	return nil
}

// write adds the topics to a transaction and aborts it. If some can't be written, it tries again without them.
func (c *checking) write(ctx context.Context) error {
	who := "check-" + rand.Text()[:8] // so that checks of several replicas do not fence each other
	left := slices.Clone(c.existing)
	granted := c.topics.TryTimeout(ctx, who)
	for {
		err := granted
		if err == nil {
			err = c.topics.TryTransaction(ctx, who, names(left)...)
		}
		denied, ok := errors.AsType[producer.DeniedTopics](err)
		switch {
		case errors.Is(err, kafka.TransactionalIDAuthorizationFailed):
			c.wrong = append(c.wrong, fmt.Errorf("write in a transaction: not allowed with the transactional ids %s*: grant "+
				"Write on them:\n%s",
				c.cfg.TransactionalPrefix(), grant(c.cfg, "--transactional-id", c.cfg.TransactionalPrefix(), toWrite)))
			return nil
		case !ok:
			return err
		}
		c.denied[toWrite] = append(c.denied[toWrite], denied...)
		left = slices.DeleteFunc(left, func(t existingTopic) bool { return slices.Contains(denied, t.name) })
	}
}

// These are the settings of topics that only a check reads.
const (
	compressionType = "compression.type"
	timestampType   = "message.timestamp.type"
	oldest          = "message.timestamp.before.max.ms"
	newest          = "message.timestamp.after.max.ms"
)

// leastBatch is more than the size of the stub of an object with the longest names, in bytes.
const leastBatch = 4 << 10

// limits reads the settings of the existing topics.
func (c *checking) limits(ctx context.Context, resources int) error {
	if len(c.existing) == 0 {
		return nil
	}
	if _, err := c.client.Sizes(ctx, c.cfg.TopicPrefix+"."); errors.Is(err, kafka.ClusterAuthorizationFailed) {
		c.warnings = append(c.warnings, "exporter status will not have the log's size, for which Describe on the cluster is "+
			"needed:\n"+
			command(c.cfg, "--cluster", toDescribe))
	}
	configs, unread, err := c.client.TopicConfigs(ctx, names(c.existing), MaxMessageBytes, "min.insync.replicas", CleanupPolicy,
		compressionType,
		RetentionTime, RetentionBytes, timestampType, oldest, newest)
	if err != nil {
		return c.client.NewError("read the settings of topics", err)
	}
	if len(unread) > 0 {
		c.warnings = append(c.warnings, fmt.Sprintf("the settings of %s may not be read (DescribeConfigs): Kafka's default for "+
			"max.message.bytes is assumed, and smaller record batches are sent after one that a broker refuses",
			list(unread)))
	}
	for _, t := range c.existing {
		if settings := configs[t.name]; settings != nil {
			c.suits(t, settings, resources)
		}
	}
	return nil
}

// suits compares a topic's settings with what is written to it.
func (c *checking) suits(t existingTopic, has map[string]string, resources int) {
	mend := func(setting string) string {
		return ":\n" + (&difference{topic: t.name, add: setting}).command(c.cfg.Brokers)
	}
	wrong := func(format string, args ...any) {
		c.wrong = append(c.wrong, fmt.Errorf("topic %s: "+format, append([]any{t.name}, args...)...))
	}
	control := t.name == change.ControlTopic(c.cfg.TopicPrefix)
	least := leastBatch + c.encodings[c.cfg.Encoding].NewEncoder(change.Envelope{}).Overhead()
	if control {
		least += resources << 10 // a batch record has the positions of all streams, and the offsets of its records
	}
	if limit, err := strconv.Atoi(has[MaxMessageBytes]); err == nil && limit < least {
		wrong("max.message.bytes is %d, and a record may need %d: raise it%s", limit, least,
			mend(fmt.Sprintf("%s=%d", MaxMessageBytes, settings.DefaultLimit)))
	}
	if insync, err := strconv.Atoi(has["min.insync.replicas"]); err == nil && insync > t.replicas {
		wrong("min.insync.replicas is %d, and it has %d replicas, so it takes no record: add replicas, or lower it%s", insync,
			t.replicas,
			mend(fmt.Sprintf("min.insync.replicas=%d", t.replicas)))
	}
	if err := c.topics.expires(t.name, c.topics.plan(t.name), has); err != nil {
		c.wrong = append(c.wrong, err)
	}
	for _, limit := range []string{oldest, newest} {
		if ms, err := strconv.ParseInt(has[limit], 10, 64); err == nil && ms < time.Hour.Milliseconds() &&
			has[timestampType] != "LogAppendTime" {
			wrong("%s is %d, so it refuses records that had to wait, or come from another clock: let it take the broker's time%s",
				limit, ms,
				mend(timestampType+"=LogAppendTime"))
		}
	}
	used := strings.Replace(cmp.Or(c.cfg.Compression, "snappy"), "none", "uncompressed", 1)
	if was := has[compressionType]; was != "" && was != "producer" && was != used {
		c.warnings = append(c.warnings, fmt.Sprintf("topic %s: compression.type is %s, and KUBECDC_KAFKA_COMPRESSION is %s, so "+
			"the broker compresses "+
			"each batch again%s", t.name, was, cmp.Or(c.cfg.Compression, "snappy"), mend("compression.type=producer")))
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
			errs = append(errs, fmt.Errorf("%s %s: not allowed: grant %s on topics %s.*:\n%s", r.op, list(topics),
				join(r.need, ", "),
				c.cfg.TopicPrefix, grant(c.cfg, "--topic", c.cfg.TopicPrefix+".", r.need...)))
		}
	}
	return errs
}

// list returns the first few names, and how many more there are.
func list(names []string) string {
	const most = 5
	slices.Sort(names)
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
