package avro

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"kubecdc/internal/rawjson"
)

// Decode appends what Encode has written to dst, as JSON. Members come in the schema's order.
func (s *Schema) Decode(dst, encoded []byte) ([]byte, error) {
	d := decoder{src: encoded, dst: dst}
	d.value(s.root)
	if d.failed || len(d.src) > 0 {
		return nil, fmt.Errorf("decode Avro: %w", errMalformed)
	}
	return d.dst, nil
}

var errMalformed = errors.New("the bytes are not of this schema")

// decoder reads src. Once src is malformed, it reads no more.
type decoder struct {
	src    []byte
	dst    []byte
	failed bool
}

func (d *decoder) value(n *node) {
	if n.nullable && d.long() == 0 {
		d.dst = append(d.dst, "null"...)
		return
	}
	switch n.kind {
	case text:
		d.dst = appendString(d.dst, string(d.bytes()))
	case jsonText:
		d.json()
	case intOrString:
		d.intOrString()
	case long:
		d.dst = strconv.AppendInt(d.dst, d.long(), 10)
	case double:
		d.double()
	case boolean:
		d.dst = strconv.AppendBool(d.dst, d.take(1)[0] != 0)
	case record:
		d.record(n)
	case array:
		d.blocks('[', ']', func() { d.value(n.elem) })
	case mapping:
		d.blocks('{', '}', func() {
			d.dst = append(appendString(d.dst, string(d.bytes())), ':')
			d.value(n.elem)
		})
	}
}

func (d *decoder) json() {
	value := d.bytes()
	scan := rawjson.New(value)
	scan.Skip()
	d.failed = d.failed || !scan.AtEnd()
	d.dst = append(d.dst, value...)
}

func (d *decoder) intOrString() {
	value := d.bytes()
	if _, fit := integer(value); fit == exactly {
		d.dst = append(d.dst, value...)
	} else {
		d.dst = appendString(d.dst, string(value))
	}
}

func (d *decoder) double() {
	number, err := json.Marshal(math.Float64frombits(binary.LittleEndian.Uint64(d.take(8))))
	d.failed = d.failed || err != nil
	d.dst = append(d.dst, number...)
}

// record writes an object: a member for each field that is not null, and the members of _extra, which replace others. A record's
// value has its images even if they are null.
func (d *decoder) record(n *node) {
	start := len(d.dst)
	d.dst = append(d.dst, '{')
	for i := range n.fields {
		f := &n.fields[i]
		isNull := f.nullable && len(d.src) > 0 && d.src[0] == 0
		if isNull && !(n.isRecordValue && f.kind == record) {
			d.src = d.src[1:]
			continue
		}
		if i == n.extra {
			d.extra(start)
			continue
		}
		d.comma()
		d.dst = append(d.dst, f.quoted...)
		d.value(f.node)
	}
	d.dst = append(d.dst, '}')
}

func (d *decoder) comma() {
	if d.dst[len(d.dst)-1] != '{' {
		d.dst = append(d.dst, ',')
	}
}

// extra adds the members of _extra to the object that begins at start.
func (d *decoder) extra(start int) {
	if d.long() == 0 {
		return
	}
	object := d.bytes()
	scan := rawjson.New(object)
	replaced := map[string]bool{}
	for name, more := scan.First(); more; name, more = scan.Next() {
		replaced[rawjson.Name(name)] = true
		scan.Skip()
	}
	if !scan.OK() || !scan.AtEnd() || len(replaced) == 0 || d.failed {
		d.failed = true
		return
	}
	d.remove(start, replaced)
	d.comma()
	d.dst = append(d.dst, object[1:len(object)-1]...)
}

// remove removes members of the object that begins at start and has not ended yet.
func (d *decoder) remove(start int, names map[string]bool) {
	end := start + 1
	c := rawjson.NewCursor(d.dst[start:])
	c.Enter()
	for {
		from := c
		name, more := c.Member()
		if !more {
			break
		}
		c.Skip()
		if !names[rawjson.Name(name)] {
			end += copy(d.dst[end:], c.Since(&from))
		}
	}
	d.dst = d.dst[:end]
	if end > start+1 && d.dst[start+1] == ',' { // the first one was removed
		d.dst = append(d.dst[:start+1], d.dst[start+2:]...)
	}
}

// blocks reads the blocks of an array or a map. A negative count is followed by the block's size.
func (d *decoder) blocks(open, end byte, element func()) {
	d.dst = append(d.dst, open)
	first := true
	for count := d.long(); count != 0 && !d.failed; count = d.long() {
		if count < 0 {
			count = -count
			d.long()
		}
		for ; count > 0 && !d.failed; count-- {
			if !first {
				d.dst = append(d.dst, ',')
			}
			first = false
			element()
		}
	}
	d.dst = append(d.dst, end)
}

func (d *decoder) long() int64 {
	i, n := binary.Varint(d.src)
	if n <= 0 {
		d.failed = true
		d.src = nil
		return 0
	}
	d.src = d.src[n:]
	return i
}

func (d *decoder) bytes() []byte { return d.take(d.long()) }

// take reads n bytes. If the text is malformed, it returns at least eight zeros.
func (d *decoder) take(n int64) []byte {
	if d.failed || n < 0 || n > int64(len(d.src)) {
		d.failed = true
		return make([]byte, 8)
	}
	taken := d.src[:n]
	d.src = d.src[n:]
	return taken
}

// appendString appends a JSON string with the API server's escapes.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // can't fail: a string
			return append(dst, quoted...)
		}
	}
	dst = append(append(dst, '"'), s...)
	return append(dst, '"')
}
