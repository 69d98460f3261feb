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

// Encode appends a JSON object, which must be valid, in Avro's binary encoding to dst. unknown is the path of a member for which
// there is no field although the API does not allow unknown members, or "".
func (s *Schema) Encode(dst, object []byte) (encoded []byte, unknown string) {
	e := encoders.Get().(*encoder)
	e.dst, e.unknown, e.json = dst, "", object
	if e.tokens = rawjson.Scan(e.tokens[:0], object); len(e.tokens) > 0 {
		e.record(s.root, 0)
	}
	encoded, unknown = e.dst, strings.TrimPrefix(e.unknown, "before.")
	e.dst, e.json = nil, nil // so that the pool does not retain the caller's memory
	encoders.Put(e)
	return encoded, unknown
}

var encoders = sync.Pool{New: func() any { return &encoder{} }}

type encoder struct {
	dst     []byte
	json    []byte
	tokens  []rawjson.Token // tokens of json
	members []token         // values of all records around the present place, by field
	unknown string
}

// token is the index of a value's token, or 0 for none, since the first token is the record itself.
type token int32

const none token = 0

// raw returns the bytes of a token, or nil for none.
func (e *encoder) raw(t token) []byte {
	if t == none {
		return nil
	}
	return e.json[e.tokens[t].Start:e.tokens[t].End]
}

// name returns the raw name of a member, as rawjson.Cursor does.
func (e *encoder) name(t token) []byte {
	name := e.tokens[t-1]
	return e.json[name.Start+1 : max(name.End-1, name.Start+1)]
}

// next returns the token after a value.
func (e *encoder) next(t token) token { return token(e.tokens[t].Next) }

// begins reports whether a value begins with a byte.
func (e *encoder) begins(t token, b byte) bool { return e.json[e.tokens[t].Start] == b }

// fit is how well a value matches its field.
type fit uint8

const (
	misfit  fit = iota // nothing
	nearly             // another type, or not all digits
	exactly            // all
)

// value writes a value. After a misfit the output is arbitrary.
func (e *encoder) value(n *node, t token) fit {
	if isNull := t == none || e.begins(t, 'n'); n.nullable {
		if isNull && n.kind != jsonText || t == none {
			e.dst = append(e.dst, 0)
			return exactly
		}
		e.dst = append(e.dst, 2) // the second branch of the union, as a long
	}
	switch n.kind {
	case jsonText:
		e.bytes(e.raw(t))
		return exactly
	case record:
		return e.record(n, t)
	case array, mapping:
		return e.elements(n, t)
	}
	return e.scalar(n.kind, e.raw(t))
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

// unlike returns nearly for a string with the text of an integer, since it would read back as an integer.
func unlike(quoted []byte) fit {
	if _, like := integer(quoted[1 : len(quoted)-1]); like == exactly {
		return nearly
	}
	return exactly
}

// integer parses an integer. It fits exactly only if it reads back with the same text, without a superfluous sign or zero.
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

// number parses a number. It fits nearly if it reads back with another text.
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

// record writes the fields of an object's members. Members without a field go to _extra.
func (e *encoder) record(n *node, t token) fit {
	if !e.begins(t, '{') {
		return misfit
	}
	base := len(e.members)
	e.members = append(e.members, n.absent...)
	var extra []byte
	for m, end := t+2, e.next(t); m < end; m = e.next(m) + 1 {
		if i, ok := e.fieldOf(n, m); ok {
			e.members[base+i] = m
		} else if extra = e.appendMember(extra, m); !e.begins(m, 'n') {
			e.addUnknown(n, m)
		}
	}
	for i := range n.fields {
		if i == n.extra {
			break
		}
		m, start := e.members[base+i], len(e.dst)
		if m == none {
			e.dst = append(e.dst, 0)
			continue
		}
		fit := e.value(n.fields[i].node, m)
		if fit == misfit {
			e.dst = append(e.dst[:start], 0)
			e.addUnknown(n, m)
		}
		if fit != exactly {
			extra = e.appendMember(extra, m)
		}
	}
	e.members = e.members[:base]
	e.extra(extra)
	return exactly
}

// fieldOf returns the field of a member. If the member's type has changed, it has several fields, and the newest that fits is
// used. An explicit null has no field.
func (e *encoder) fieldOf(n *node, m token) (i int, ok bool) {
	name := e.name(m)
	fields := n.byName[string(name)]
	if fields == nil && bytes.IndexByte(name, '\\') >= 0 {
		fields = n.byName[rawjson.Name(name)]
	}
	if len(fields) == 0 {
		return 0, false
	}
	if e.begins(m, 'n') && !n.isRecordValue {
		return fields[0], n.fields[fields[0]].kind == jsonText
	}
	if len(fields) == 1 {
		return fields[0], true
	}
	for _, i := range fields {
		start, known := len(e.dst), e.unknown
		fits := e.value(n.fields[i].node, m) != misfit
		if e.dst, e.unknown = e.dst[:start], known; fits {
			return i, true
		}
	}
	return fields[0], true
}

// addUnknown records that the schema lacks a member.
func (e *encoder) addUnknown(n *node, m token) {
	if !n.open && e.unknown == "" {
		e.unknown = join(n.path, rawjson.Name(e.name(m)))
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

func (e *encoder) appendMember(object []byte, m token) []byte {
	if object == nil {
		object = append(object, '{')
	} else {
		object = append(object, ',')
	}
	object = append(append(object, '"'), e.name(m)...)
	return append(append(object, '"', ':'), e.raw(m)...)
}

// elements writes the elements of an array, or the members of a map, as one block, and the empty block that ends them.
func (e *encoder) elements(n *node, t token) fit {
	open, names := byte('['), token(0)
	if n.kind == mapping {
		open, names = '{', 1 // a name before each value
	}
	if !e.begins(t, open) {
		return misfit
	}
	all, end, count := exactly, e.next(t), 0
	for v := t + 1 + names; v < end; v = e.next(v) + names {
		count++
	}
	if count > 0 {
		e.long(int64(count))
	}
	for v := t + 1 + names; v < end && all != misfit; v = e.next(v) + names {
		if n.kind == mapping {
			name := e.name(v)
			if bytes.IndexByte(name, '\\') >= 0 {
				name = []byte(rawjson.Name(name))
			}
			e.bytes(name)
		}
		all = min(all, e.value(n.elem, v))
	}
	e.dst = append(e.dst, 0)
	return all
}

// text writes the content of a JSON string.
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

// long writes an integer in Avro's form, which is also Go's: zigzag, in groups of seven bits.
func (e *encoder) long(i int64) { e.dst = binary.AppendVarint(e.dst, i) }
