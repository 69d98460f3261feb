package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"kubecdc/change"
	"kubecdc/sinks"
)

// asRecord adds key, value and headers to a change from a log without records, as the exporter would have written them.
func asRecord(e *change.Envelope, l *sinks.Logged, stream *change.Stream) {
	c := l.Change
	c.Stream = stream
	l.Key, l.Value = e.AppendKey(nil, &c), e.AppendValue(nil, &c)
	l.Headers = []sinks.Header{{Key: change.HeaderOp, Value: c.Op.String()}, {Key: change.HeaderUID, Value: c.UID},
		{Key: change.HeaderResourceVersion, Value: string(c.ResourceVersion)},
		{Key: change.HeaderStream, Value: string(c.Stream.ID())}}
	if c.Namespace != "" {
		l.Headers = append(l.Headers, sinks.Header{Key: change.HeaderNamespace, Value: c.Namespace})
	}
	if c.Inferred {
		l.Headers = append(l.Headers, sinks.Header{Key: change.HeaderInferred, Value: "true"})
	}
	if c.Gap != "" {
		l.Headers = append(l.Headers, sinks.Header{Key: change.HeaderGap, Value: c.Gap})
	}
	l.Headers = append(l.Headers, sinks.Header{Key: change.HeaderSlot, Value: strconv.Itoa(l.Slot)},
		sinks.Header{Key: change.HeaderEpoch, Value: strconv.FormatInt(l.Epoch, 10)},
		sinks.Header{Key: change.HeaderBatch, Value: strconv.FormatUint(l.Batch, 10)})
}

// line is a record as a line of JSON.
type line struct {
	Topic     string            `json:"topic,omitempty"`
	Partition *int              `json:"partition,omitempty"`
	Offset    *int64            `json:"offset,omitempty"`
	Logged    int64             `json:"logged_ms"`
	Headers   map[string]string `json:"headers"`
	Key       json.RawMessage   `json:"key"`
	Value     json.RawMessage   `json:"value"` // null in a tombstone
}

// appendLines appends the lines of a change. A delete is followed by its tombstone.
func appendLines(dst *bytes.Buffer, id string, l *sinks.Logged) error {
	lines := json.NewEncoder(dst)
	lines.SetEscapeHTML(false) // values remain unchanged
	out := line{Topic: l.Topic, Logged: l.Logged.UnixMilli(), Headers: map[string]string{change.HeaderReplay: id}, Key: l.Key,
		Value: l.Value}
	if l.Topic != "" {
		out.Partition, out.Offset = &l.Partition, &l.Offset
	}
	if l.JSONValue != nil {
		out.Key, out.Value = l.JSONKey, l.JSONValue
	}
	for _, h := range l.Headers {
		out.Headers[h.Key] = h.Value
	}
	for {
		if err := lines.Encode(out); err != nil {
			return fmt.Errorf("encode the record of %s: %w", l.Change.Key(), err)
		}
		if l.Op != change.Delete || out.Value == nil {
			return nil
		}
		out.Value, out.Offset, out.Headers[change.HeaderOp] = nil, nil, change.OpTombstone
		delete(out.Headers, change.HeaderContentType)
	}
}
