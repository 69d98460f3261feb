package encoding

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// cloudEvents is a CloudEvent in the structured mode of the Kafka protocol binding, whose data is change.Envelope's JSON
// (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md). The extension attributes
// have the names that Debezium's CloudEventsConverter gives them. A tombstone is no event: it has no content-type.
type cloudEvents struct{ plainKeys }

func (cloudEvents) Name() string { return "cloudevents" }

func (cloudEvents) NewEncoder(e change.Envelope) Encoder {
	head := fmt.Appendf(nil, `{"specversion":"1.0","datacontenttype":"application/json","source":%s,"iodebeziumname":%s,"iodebeziumdb":%s`,
		change.AppendString(nil, "/kubecdc/"+url.PathEscape(e.Cluster)), change.AppendString(nil, e.Prefix),
		change.AppendString(nil, e.Cluster))
	return &cloudEventsEncoder{debeziumEncoder: debeziumEncoder{envelope: e}, constant: head}
}

func (cloudEvents) Decode(_ context.Context, value []byte, _ map[string]string) (Decoded, error) {
	data := rawjson.Member(value, "data")
	if data == nil {
		return Decoded{}, fmt.Errorf("decode a CloudEvent %.80q: it has no data", value)
	}
	return decodeEnvelope(data)
}

type cloudEventsEncoder struct {
	debeziumEncoder
	constant []byte
	head     []byte
	parts    [8][]byte
}

func (e *cloudEventsEncoder) Overhead() int { return 700 }

var (
	cloudEventEnd = []byte(`}`)
	eventTypes    = map[change.Op]string{
		change.Create: "dev.kubecdc.change.created", change.Update: "dev.kubecdc.change.updated",
		change.Delete: "dev.kubecdc.change.deleted", change.Read: "dev.kubecdc.change.read",
	}
)

// attribute returns a text that is valid in an event's attribute: control characters and noncharacters are escaped as in a URL.
// No object's name has a percent sign, so each one is an escape.
func attribute(text string) string {
	if !strings.ContainsFunc(text, noAttribute) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if noAttribute(r) {
			b.WriteString(url.PathEscape(string(r)))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func noAttribute(r rune) bool {
	return unicode.IsControl(r) || r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef
}

func (e *cloudEventsEncoder) Encode(r *Record, c *change.Change, dead *change.DeadLetter) {
	e.debeziumEncoder.Encode(r, c, dead)
	happened, _ := c.Happened()
	resource := c.Stream.Objects()
	b := append(e.head[:0], e.constant...)
	b = change.AppendString(append(b, `,"id":`...), c.ID())
	b = append(append(append(b, `,"type":"`...), eventTypes[c.Op]...), '"')
	b = change.AppendString(append(b, `,"subject":`...), attribute(resource.ID()+"/"+c.Key()))
	b = append(happened.UTC().AppendFormat(append(b, `,"time":"`...), time.RFC3339Nano), '"')
	b = append(append(b, `,"iodebeziumop":"`...), byte(c.Op), '"')
	if c.Namespace != "" {
		b = change.AppendString(append(b, `,"iodebeziumschema":`...), c.Namespace)
	}
	b = change.AppendString(append(b, `,"iodebeziumtable":`...), resource.Plural)
	e.head = append(b, `,"data":`...)
	parts := append(append(e.parts[:0], e.head), r.Value...)
	r.Value = append(parts, cloudEventEnd)
	r.addHeader(change.HeaderContentType, "application/cloudevents+json")
}
