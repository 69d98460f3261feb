package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/change"
)

// record is one record of a resource's topic, as a consumer finds it.
type record struct {
	topic     string
	partition int32
	offset    int64
	op        string // c, u, d, r; empty for a tombstone
	key       string // namespace/name
	revision  uint64 // of the change
	gap       string // the gap that it was recovered from
	value     []byte
	arrived   time.Time
}

// parseRecord reads the key and the headers: the value is left for those who need it.
func parseRecord(r *kgo.Record) (*record, error) {
	out := &record{topic: r.Topic, partition: r.Partition, offset: r.Offset, value: r.Value, arrived: time.Now()}
	_, namespace, name, err := change.DecodeKey(r.Key)
	if err != nil {
		return nil, fmt.Errorf("read a record of %s: %w", r.Topic, err)
	}
	out.key = change.ObjectKey(namespace, name)
	if r.Value == nil {
		return out, nil
	}
	for _, h := range r.Headers {
		switch h.Key {
		case change.HeaderOp:
			out.op = string(h.Value)
		case change.HeaderGap:
			out.gap = string(h.Value)
		case change.HeaderResourceVersion:
			if out.revision, err = strconv.ParseUint(string(h.Value), 10, 64); err != nil {
				return nil, fmt.Errorf("read a record of %s: %w", r.Topic, err)
			}
		}
	}
	return out, nil
}

// images are the object before and after the change; nil for none.
func (r *record) images() (before, after object, err error) {
	var v struct{ Before, After object }
	if err := json.Unmarshal(r.value, &v); err != nil {
		return nil, nil, fmt.Errorf("read the value of %s %s: %w", r.topic, r.key, err)
	}
	return v.Before, v.After, nil
}

var opNames = map[string]string{"r": "in the snapshot", "c": "created", "u": "updated", "d": "deleted"}
