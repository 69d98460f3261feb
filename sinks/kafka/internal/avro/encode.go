package avro

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"sync"

	"kubecdc/internal/rawjson"
)

// Encode appends a JSON object in Avro's binary encoding to dst. The JSON must have been checked before. unknown is the path of a
// member that no field holds although the API does not allow such members; empty if there is none.
func (s *Schema) Encode(dst, object []byte) (encoded []byte, unknown string) {
	e := encoders.Get().(*encoder)
	e.dst, e.unknown = dst, ""
	e.record(s.root, object)
	encoded, unknown = e.dst, strings.TrimPrefix(e.unknown, "before.")
	e.dst = nil
	encoders.Put(e)
	return encoded, unknown
}

var encoders = sync.Pool{New: func() any { return &encoder{} }}

type encoder struct {
	dst     []byte
	members []member // of all records, arrays and maps that the encoder is inside of
	unknown string
}

// member is a member of an object, or an element of an array.
type member struct{ name, value []byte }

// fit is how much of a value its field holds.
type fit uint8

const (
	misfit  fit = iota // nothing
	nearly             // not its type, or not all digits
	exactly            // all
)

// value writes a value, or after a misfit anything.
func (e *encoder) value(n *node, value []byte) fit {
	if isNull := len(value) == 0 || value[0] == 'n'; n.nullable {
		if isNull && n.kind != jsonText || value == nil {
			e.dst = append(e.dst, 0)
			return exactly
		}
		e.long(1)
	}
	switch n.kind {
	case jsonText:
		e.bytes(value)
		return exactly
	case record:
		return e.record(n, value)
	case array:
		return e.array(n, value)
	case mapping:
		return e.mapping(n, value)
	}
	return e.scalar(n.kind, value)
}

func (e *encoder) scalar(k kind, value []byte) fit {
	isString := len(value) > 0 && value[0] == '"'
	switch k {
	case text:
		if !isString {
			return misfit
		}
		return e.text(value)
	case intOrString:
		if isString {
			return min(e.text(value), unlike(value))
		}
		_, fit := integer(value)
		e.bytes(value)
		return fit
	case long:
		i, fit := integer(value)
		e.long(i)
		return fit
	case double:
		f, fit := number(value)
		e.dst = binary.LittleEndian.AppendUint64(e.dst, math.Float64bits(f))
		return fit
	}
	switch string(value) { // a boolean
	case "true":
		e.dst = append(e.dst, 1)
	case "false":
		e.dst = append(e.dst, 0)
	default:
		return misfit
	}
	return exactly
}

// unlike returns nearly for the string of an integer, which reads back as an integer.
func unlike(quoted []byte) fit {
	if _, like := integer(quoted[1 : len(quoted)-1]); like == exactly {
		return nearly
	}
	return exactly
}

// integer reads an integer that has no sign or zero too many, so that it reads back with the same text.
func integer(value []byte) (int64, fit) {
	digits := bytes.TrimPrefix(value, []byte("-"))
	if len(digits) == 0 || digits[0] == '+' || digits[0] == '0' && len(value) > 1 {
		return 0, misfit
	}
	i, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, misfit
	}
	return i, exactly
}

// number reads a number. It fits nearly if reading it back gives another text.
func number(value []byte) (float64, fit) {
	var f float64
	if json.Unmarshal(value, &f) != nil {
		return 0, misfit
	}
	if again, _ := json.Marshal(f); !bytes.Equal(again, value) {
		return f, nearly
	}
	return f, exactly
}

// record writes the fields of an object's members, and what has none in _extra.
func (e *encoder) record(n *node, value []byte) fit {
	c := rawjson.At(value)
	if !c.AtObject() {
		return misfit
	}
	base := len(e.members)
	for range n.fields {
		e.members = append(e.members, member{})
	}
	var extra []byte
	for c.Enter(); ; {
		name, more := c.Member()
		if !more {
			break
		}
		value := c.Skip()
		if i, ok := e.fieldOf(n, name, value); ok {
			e.members[base+i] = member{name, value}
		} else if extra = appendMember(extra, name, value); value[0] != 'n' {
			e.note(n, name)
		}
	}
	for i := range n.fields {
		if i == n.extra {
			break
		}
		m, start := e.members[base+i], len(e.dst)
		fit := e.value(n.fields[i].node, m.value)
		if fit == misfit {
			e.dst = append(e.dst[:start], 0)
			e.note(n, m.name)
		}
		if fit != exactly {
			extra = appendMember(extra, m.name, m.value)
		}
	}
	e.leave(base)
	e.extra(extra)
	return exactly
}

// fieldOf returns the field of a member. If the member's type has changed, it has several fields: the newest that fits. An explicit
// null has none.
func (e *encoder) fieldOf(n *node, name, value []byte) (i int, ok bool) {
	fields := n.byName[string(name)]
	if fields == nil && bytes.IndexByte(name, '\\') >= 0 {
		fields = n.byName[rawjson.Name(name)]
	}
	if len(fields) == 0 {
		return 0, false
	}
	if value[0] == 'n' && !n.whole {
		return fields[0], n.fields[fields[0]].kind == jsonText
	}
	if len(fields) == 1 {
		return fields[0], true
	}
	for _, i := range fields {
		start, known := len(e.dst), e.unknown
		fits := e.value(n.fields[i].node, value) != misfit
		if e.dst, e.unknown = e.dst[:start], known; fits {
			return i, true
		}
	}
	return fields[0], true
}

// note remembers that the schema lacks a member.
func (e *encoder) note(n *node, name []byte) {
	if !n.open && e.unknown == "" {
		e.unknown = join(n.path, rawjson.Name(name))
	}
}

// extra ends a record.
func (e *encoder) extra(members []byte) {
	if members == nil {
		e.dst = append(e.dst, 0)
		return
	}
	e.long(1)
	e.bytes(append(members, '}'))
}

func appendMember(object, name, value []byte) []byte {
	if object == nil {
		object = append(object, '{')
	} else {
		object = append(object, ',')
	}
	object = append(append(object, '"'), name...)
	return append(append(object, '"', ':'), value...)
}

func (e *encoder) array(n *node, value []byte) fit {
	c := rawjson.At(value)
	if !c.AtArray() {
		return misfit
	}
	base := len(e.members)
	for c.Enter(); c.Element(); {
		e.members = append(e.members, member{value: c.Skip()})
	}
	return e.block(n.elem, base, false)
}

func (e *encoder) mapping(n *node, value []byte) fit {
	c := rawjson.At(value)
	if !c.AtObject() {
		return misfit
	}
	base := len(e.members)
	c.Enter()
	for name, more := c.Member(); more; name, more = c.Member() {
		e.members = append(e.members, member{name, c.Skip()})
	}
	return e.block(n.elem, base, true)
}

// block writes the elements of an array or a map: all in one block, and the empty block that ends it.
func (e *encoder) block(elem *node, base int, named bool) fit {
	all, end := exactly, len(e.members)
	if end > base {
		e.long(int64(end - base))
	}
	for i := base; i < end && all != misfit; i++ {
		m := e.members[i]
		if named {
			all = min(all, e.name(m.name))
		}
		all = min(all, e.value(elem, m.value))
	}
	e.dst = append(e.dst, 0)
	e.leave(base)
	return all
}

// leave forgets members, so that the pool keeps nobody's memory.
func (e *encoder) leave(base int) {
	clear(e.members[base:])
	e.members = e.members[:base]
}

func (e *encoder) name(raw []byte) fit {
	if bytes.IndexByte(raw, '\\') >= 0 {
		e.bytes([]byte(rawjson.Name(raw)))
	} else {
		e.bytes(raw)
	}
	return exactly
}

// text writes the string of a JSON string.
func (e *encoder) text(quoted []byte) fit {
	if plain, ok := rawjson.PlainText(quoted); ok {
		e.bytes(plain)
		return exactly
	}
	s, ok := rawjson.Text(quoted)
	if !ok {
		return misfit
	}
	e.bytes([]byte(s))
	return exactly
}

func (e *encoder) bytes(b []byte) {
	e.long(int64(len(b)))
	e.dst = append(e.dst, b...)
}

// long writes an integer as Avro does, which is as Go does: zigzag, in groups of seven bits.
func (e *encoder) long(i int64) { e.dst = binary.AppendVarint(e.dst, i) }
