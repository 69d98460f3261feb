package encoding

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/sinks/encoding/avro"
	"kubecdc/sinks/encoding/registry"
)

// topicSchemas are the schemas of a topic's records. All slots of the process share them.
type topicSchemas struct {
	all   *avroEncoding
	topic string

	mu       sync.Mutex // held during requests to the registry and the API server
	resource change.Resource
	current  schemas
	next     time.Time // do not grow before
	pause    time.Duration
}

// schemas are the schemas of records to write. They never change: another schema has another id.
type schemas struct {
	keyID, valueID int
	value          *avro.Schema
}

// These are the pauses between two attempts to let a topic's schema grow. An API server describes a new CRD some seconds after it
// accepts its objects. The pause grows while attempts find nothing, since an aggregated API server may never describe its
// objects.
const (
	minPause = time.Second
	maxPause = 10 * time.Minute
	growTime = 5 * time.Second // for one attempt
)

// RegistryError is an error about one topic's schemas. Other topics may work.
type RegistryError struct {
	Topic string
	Err   error
	Again func(context.Context) error // tries again
}

func (e *RegistryError) Error() string { return e.Err.Error() }
func (e *RegistryError) Unwrap() error { return e.Err }

// topic returns the schemas of a topic. If a resource is now read in another version, that version describes it.
func (a *avroEncoding) topic(name string, resource change.Resource) *topicSchemas {
	a.mu.Lock()
	t := a.topics[name]
	if t == nil {
		t = &topicSchemas{all: a, topic: name}
		a.topics[name] = t
	}
	a.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.resource != resource {
		t.resource, t.next, t.pause = resource, time.Time{}, minPause
	}
	return t
}

// subject returns the registry's name for the schemas of the topic's values (TopicNameStrategy).
func (t *topicSchemas) subject() string { return t.topic + "-value" }

// keySubject returns the registry's name for the schema of the topic's keys.
func (t *topicSchemas) keySubject() string { return t.topic + "-key" }

// open returns the first schemas to use: the registry's latest, extended by what the API server describes.
func (t *topicSchemas) open(ctx context.Context) (schemas, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.value != nil {
		return t.current, nil
	}
	r := t.all.Registry
	id, known, err := r.Latest(ctx, t.subject())
	if err != nil {
		return schemas{}, err
	}
	keyID, err := r.Register(ctx, t.keySubject(), t.all.Schemas.Key(t.topic))
	if err != nil {
		return schemas{}, t.refused(err)
	}
	if err := t.checkKeys(ctx, keyID); err != nil {
		return schemas{}, err
	}
	isNew := known == ""
	if isNew {
		if known, err = t.all.Schemas.Value(ctx, t.topic, t.resource); err != nil {
			return schemas{}, err
		}
		if id, err = r.Register(ctx, t.subject(), known); err != nil {
			return schemas{}, t.refused(err)
		}
	}
	s, err := avro.Parse(known)
	if err != nil {
		return schemas{}, t.refusal(fmt.Errorf("the latest schema of the subject %s: %w; delete the subject, or use another "+
			"KUBECDC_KAFKA_TOPIC_PREFIX", t.subject(), err))
	}
	t.current = schemas{keyID, id, s}
	if isNew {
		return t.current, nil
	}
	if err := t.grow(ctx); err != nil {
		t.all.Logger.Warn("the schema of a topic does not change, and remains the latest in the registry", "topic", t.topic,
			"error", err)
	}
	return t.current, nil
}

// checkKeys compares the id of the keys' schema with the id in the topic's last key. A registry that has lost its subjects
// returns another id.
func (t *topicSchemas) checkKeys(ctx context.Context, id int) error {
	key, err := t.all.LastKey(ctx, t.topic)
	if key == nil || err != nil {
		return err
	}
	was, _, err := cutPrefix(key)
	if err == nil && was != id {
		err = fmt.Errorf("the keys of topic %s have the schema %d, and the registry gives the subject %s the schema %d: it "+
			"has lost "+
			"its schemas, or somebody has deleted the subject, and compaction would keep each object under both keys: restore "+
			"the registry from its "+
			"backup, or begin another log (KUBECDC_KAFKA_TOPIC_PREFIX and KUBECDC_CHECKPOINT)", t.topic, was, t.keySubject(), id)
	}
	if err != nil {
		return t.refusal(err)
	}
	return nil
}

// refused turns a refusal into an error about one topic.
func (t *topicSchemas) refused(err error) error {
	if registry.Refused(err) {
		return t.refusal(err)
	}
	return err
}

func (t *topicSchemas) refusal(err error) error {
	return &RegistryError{Topic: t.topic, Err: err, Again: func(ctx context.Context) error {
		_, err := t.open(ctx)
		return err
	}}
}

// lacks lets the schema grow, since the used one lacks a member. It returns false if the API server describes nothing new, or
// can't be asked now. Then the member is in _extra, and the exporter goes on.
func (t *topicSchemas) lacks(ctx context.Context, used schemas, member string) (s schemas, grown bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.value == used.value && time.Now().After(t.next) {
		ctx, cancel := context.WithTimeout(ctx, growTime)
		defer cancel()
		err := t.grow(ctx)
		if t.current.value != used.value {
			t.pause = minPause
		} else {
			t.next = time.Now().Add(t.pause)
			t.all.Logger.Warn("the schema of a topic lacks a member of an object, which is in _extra: the API server does not "+
				"describe it",
				"topic", t.topic, "member", member, "again_in", t.pause, "error", err)
			t.pause = min(2*t.pause, maxPause)
		}
	}
	return t.current, t.current.value != used.value
}

// grow registers the registry's latest schema, extended by what the API server describes. Another process that writes to the
// topic may have extended it before. If that fails, the current schema remains in use.
func (t *topicSchemas) grow(ctx context.Context) error {
	wanted, err := t.all.Schemas.Value(ctx, t.topic, t.resource)
	if err != nil {
		return err
	}
	id, known, err := t.all.Registry.Latest(ctx, t.subject())
	if err != nil {
		return err
	}
	if known == "" { // somebody has deleted the subject
		id, known = t.current.valueID, t.current.value.Text
	}
	text, grown, err := avro.Grow(known, wanted)
	if err != nil || !grown && id == t.current.valueID {
		return err
	}
	s, err := avro.Parse(text)
	if err != nil {
		return err
	}
	if grown {
		id, err = t.all.Registry.Register(ctx, t.subject(), text)
	}
	if err == nil {
		t.current.valueID, t.current.value = id, s
		t.all.Logger.Info("the schema of a topic has grown", "subject", t.subject(), "id", id)
	}
	return err
}

// Check returns an error if the registry does not answer, or would refuse the schemas of the resources' topics.
func (a *avroEncoding) Check(ctx context.Context, prefix string, resources []change.Resource) error {
	var wrong []error
	for _, r := range resources {
		t := a.topic(change.Topic(prefix, r), r)
		_, text, err := a.Registry.Latest(ctx, t.subject())
		if err != nil {
			return err
		}
		wrong = append(wrong, a.Registry.Check(ctx, t.keySubject(), a.Schemas.Key(t.topic)))
		wanted, err := a.Schemas.Value(ctx, t.topic, r)
		if err == nil && text != "" {
			wanted, _, err = avro.Grow(text, wanted)
		}
		if err != nil {
			err = fmt.Errorf("the schema of the subject %s: %w", t.subject(), err)
		} else {
			err = a.Registry.Check(ctx, t.subject(), wanted)
		}
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}
