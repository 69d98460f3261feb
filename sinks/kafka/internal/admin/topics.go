package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createtopics"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/producer"
	"kubecdc/sinks/kafka/internal/settings"
)

// MaxMessageBytes is the setting of topics that limits record batches.
const MaxMessageBytes = "max.message.bytes"

// request returns the request that creates a topic as planned.
func (p *topicPlan) request(name string, cfg *settings.Config) createtopics.RequestTopic {
	t := createtopics.RequestTopic{Name: name, NumPartitions: int32(cmp.Or(p.partitions, cfg.Partitions))}
	config := maps.Clone(p.config)
	maps.Copy(config, cfg.TopicConfig)
	for k, v := range config {
		t.Configs = append(t.Configs, createtopics.RequestConfig{Name: k, Value: v})
	}
	return t
}

// Topics creates topics on demand, and caches their properties.
type Topics struct {
	cfg           *settings.Config
	client        *cluster.Client
	data, control topicPlan

	mu     sync.Mutex
	known  map[string]topicInfo
	all    []string          // the names of all topics
	warned map[string]string // warnings about retention so far, by topic
}

// topicInfo is what a writer must know of a topic.
type topicInfo struct {
	partitions int
	maxBatch   int // largest record batch in bytes
}

// NewTopics returns an empty cache. It does not connect.
func NewTopics(cfg *settings.Config, c *cluster.Client) *Topics {
	t := &Topics{cfg: cfg, client: c, data: dataTopic(cfg.History), control: controlTopic(cfg.History),
		known: map[string]topicInfo{}, warned: map[string]string{}}
	maps.Copy(t.data.config, cfg.TopicConfig)
	return t
}

// DataSettings are the settings with which data topics are created.
func (t *Topics) DataSettings() map[string]string { return t.data.config }

// plan returns how a topic with this name is created.
func (t *Topics) plan(name string) *topicPlan {
	switch prefix := t.cfg.TopicPrefix; {
	case name == change.ControlTopic(prefix):
		return &t.control
	case name == change.DeadLetterTopic(prefix):
		return &deadLetterTopic
	case change.IsSnapshotTopic(prefix, name), name == change.AuditTopic(prefix):
		plan := historyTopic(t.cfg.History)
		return &plan
	}
	return &t.data
}

// Topic returns a topic to write to: the known one, or else the present one, which it creates as planned if it is missing.
func (t *Topics) Topic(ctx context.Context, known map[string]*producer.Topic, name string) (*producer.Topic, error) {
	if known[name] == nil {
		info, err := t.ensure(ctx, name)
		if err != nil {
			return nil, err
		}
		known[name] = producer.NewTopic(name, info.partitions, info.maxBatch)
	}
	return known[name], nil
}

func (t *Topics) ensure(ctx context.Context, name string) (info topicInfo, err error) {
	if info, ok := t.get(name); ok {
		return info, nil
	}
	if err := t.collides(ctx, name); err != nil {
		return info, err
	}
	plan, found, created := t.plan(name), 0, false // several slots may do this at once, and the broker creates the topic once
	err = t.client.Try(ctx, "prepare topic "+name, func(ctx context.Context) error {
		n, made, err := t.ready(ctx, name, plan)
		found, created = n, created || made
		return err
	})
	if err != nil {
		return info, err
	}
	if info.partitions, err = t.pin(ctx, name, found, created); err != nil {
		return info, err
	}
	if info.maxBatch, err = t.settings(ctx, name, plan); err != nil {
		return info, err
	}
	if err := consumer.Readable(ctx, t.client, name); err != nil {
		return info, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[name] = info
	return info, nil
}

// pin returns how many of a topic's partitions are used. Added partitions do not change it, since a key must remain on its
// partition.
func (t *Topics) pin(ctx context.Context, name string, found int, created bool) (int, error) {
	use, err := t.cfg.Pin(ctx, name, found, created)
	if err != nil {
		return 0, fmt.Errorf("find out how many partitions of %s are written to: %w", name, err)
	}
	if use != found {
		t.cfg.Logger.Warn("partitions were added to a topic: they remain empty, since an object's changes must remain on one "+
			"partition",
			"topic", name, "partitions", found, "written to", use,
			"hint", "to use them, start with a new topic prefix and a new checkpoint")
	}
	return use, nil
}

func (t *Topics) get(name string) (topicInfo, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, ok := t.known[name]
	return info, ok
}

// Forget removes topics from the cache, or all topics if none are named.
func (t *Topics) Forget(names ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		delete(t.known, name)
	}
	if len(names) == 0 {
		clear(t.known)
		t.all = nil
	}
}

// TryTransaction finds out whether topics can be written to in a transaction: it adds them to one, and aborts it. who makes the
// transactional id unique. A slot's id would fence the slot's owner, and two callers with one id would fence each other.
func (t *Topics) TryTransaction(ctx context.Context, who string, topics ...string) error {
	p, err := t.tryProducer(ctx, who, min(t.cfg.TransactionTimeout, tryTimeout))
	if err != nil {
		return err
	}
	var partitions []*producer.Partition
	for _, name := range topics {
		partitions = append(partitions, producer.NewTopic(name, 1, 0).Partitions[0])
	}
	if err := p.Add(ctx, partitions...); err != nil {
		return err
	}
	return p.End(ctx, false)
}

// TryTimeout returns an error if the brokers do not grant the timeout of transactions.
func (t *Topics) TryTimeout(ctx context.Context, who string) error {
	_, err := t.tryProducer(ctx, who, t.cfg.TransactionTimeout)
	return err
}

func (t *Topics) tryProducer(ctx context.Context, who string, timeout time.Duration) (*producer.Producer, error) {
	return producer.New(ctx, t.client, producer.Options{
		TransactionalID: t.cfg.TransactionalPrefix() + t.cfg.ClusterUID + "-try-" + who, Timeout: timeout, Protocol1: true})
}

// tryTimeout is when the coordinator ends the transaction if the process is killed during the try.
const tryTimeout = 10 * time.Second

// ready returns the number of partitions once each has a leader, and whether it has created the topic.
func (t *Topics) ready(ctx context.Context, name string, plan *topicPlan) (n int, made bool, err error) {
	leaders, err := t.client.Leaders(ctx, name)
	if errors.Is(err, kafka.UnknownTopicOrPartition) {
		made, err = t.create(ctx, name, plan)
		if err != nil {
			return 0, false, err
		}
		if leaders, err = t.client.Leaders(ctx, name); cluster.NoTopic(err) && !made {
			err = cluster.ErrUnknownYet(name)
		}
	}
	if err != nil {
		return 0, made, err
	}
	for p, leader := range leaders {
		if leader < 0 {
			return 0, made, fmt.Errorf("partition %d: %w", p, kafka.LeaderNotAvailable)
		}
	}
	return len(leaders), made, nil
}

// create creates a topic. It returns false if the topic exists: another slot has just created it, or a broker did not know it.
func (t *Topics) create(ctx context.Context, name string, plan *topicPlan) (made bool, err error) {
	res, err := t.client.CreateTopics(ctx, false, plan.request(name, t.cfg))
	if err == nil && len(res) > 0 {
		err = cluster.WithText(cluster.CodeError(res[0].ErrorCode), res[0].ErrorMessage)
	}
	if err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
		return false, fmt.Errorf("create: %w", err)
	}
	return err == nil, nil
}

// Limit reads again how large a topic's record batches may be, in bytes.
func (t *Topics) Limit(ctx context.Context, name string) (int, error) {
	limit, err := t.settings(ctx, name, t.plan(name))
	t.mu.Lock()
	defer t.mu.Unlock()
	if info, known := t.known[name]; known && err == nil {
		info.maxBatch = limit
		t.known[name] = info
	}
	return limit, err
}

// settings reads a topic's settings. It returns the limit of its record batches: the topic's or the configured one, whichever is
// smaller. Without the right to DescribeConfigs it returns no error, since the limit can be learned from refused batches. It
// retries other errors, since records above a wrongly guessed limit would go to the dead-letter topic.
func (t *Topics) settings(ctx context.Context, name string, plan *topicPlan) (limit int, err error) {
	var has map[string]string
	err = t.client.Try(ctx, "read the configuration of "+name, func(ctx context.Context) error {
		all, err := readConfigs(ctx, t.client, name)
		has = all[name]
		if err == nil {
			limit, err = strconv.Atoi(has[MaxMessageBytes])
		}
		return err
	})
	if ctx.Err() != nil {
		return 0, err
	}
	if err != nil {
		t.cfg.Logger.Debug("can't read a topic's settings; assuming Kafka's default of "+MaxMessageBytes, "topic", name, "error",
			err)
		limit = cmp.Or(t.cfg.MaxMessageBytes, settings.DefaultLimit)
	}
	if err := t.expires(name, plan, has); err != nil {
		return 0, err
	}
	if d := plan.differs(name, has); d != nil {
		t.warn(d)
	}
	if configured := t.cfg.MaxMessageBytes; configured > 0 {
		limit = min(limit, configured)
	}
	return max(limit, producer.MinLimit), nil
}

// warn logs once how a topic differs, and again when that changes.
func (t *Topics) warn(d *difference) {
	t.mu.Lock()
	known := t.warned[d.topic] == d.has
	t.warned[d.topic] = d.has
	t.mu.Unlock()
	if !known {
		t.cfg.Logger.Warn("a topic's retention differs from "+historySetting+"; it is left as it is", "topic", d.topic,
			"has", d.has, "asked", d.asked, "to change it", d.command(t.cfg.Brokers))
	}
}
