package cells

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
)

// Row is the object of a table's row.
type Row struct {
	Object any
	Now    time.Time // the moment, so that ages are as they were then
}

// Cell computes one cell of a row.
type Cell func(r *Row) any

// Decoded returns an object with exact numbers.
func Decoded(body []byte) (object map[string]any) {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	_ = d.Decode(&object) // can't fail: the API server has sent it
	return object
}

// Custom returns the cell of a custom resource's column. It is nil for a value of another type than the column's.
func Custom(kind, path string) Cell {
	p := jsonpath.New(path).AllowMissingKeys(true)
	if p.Parse("{"+path+"}") != nil {
		return func(*Row) any { return nil }
	}
	return func(r *Row) any {
		found, err := p.FindResults(r.Object)
		if err != nil || len(found) == 0 || len(found[0]) == 0 {
			return nil
		}
		value := found[0][0].Interface()
		number, isNumber := value.(json.Number)
		switch kind {
		case "integer":
			if n, err := number.Int64(); isNumber && err == nil {
				return n
			} else if f, err := number.Float64(); isNumber && err == nil {
				return int64(f)
			}
		case "number":
			if f, err := number.Float64(); isNumber && err == nil {
				return f
			}
		case "boolean":
			if b, isBool := value.(bool); isBool {
				return b
			}
		case "date":
			if text, isText := value.(string); isText {
				return r.since(text, "<invalid>")
			}
		case "string":
			var text bytes.Buffer
			if p.PrintResults(&text, found[0][:1]) == nil {
				return text.String()
			}
		}
		return nil
	}
}

// Compact returns a value as JSON.
func Compact(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// MemberAt returns the first member of an object at a path such as spec.nodeName, or nil if there is none.
func MemberAt(object any, path string) any { return append(valuesAt(object, path), nil)[0] }

func (r *Row) member(path string) any { return MemberAt(r.Object, path) }

// has reports whether there is a member at a path.
func (r *Row) has(path string) bool { return r.member(path) != nil }

// Text returns a member as text, or "" if there is none.
func (r *Row) Text(path string) string { return TextOf(r.member(path)) }

// TextOf returns a value as text.
func TextOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return fmt.Sprint(v)
}

func (r *Row) number(path string) int64 { return NumberOf(r.member(path)) }

// NumberOf returns an exact number, or 0.
func NumberOf(v any) int64 {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return i
}

func (r *Row) list(path string) []any { return listOf(r.member(path)) }

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

func (r *Row) texts(path string) (all []string) {
	for _, v := range valuesAt(r.Object, path) {
		all = append(all, TextOf(v))
	}
	return all
}

// since returns the time from text to the moment. It returns wrong if text is not a time.
func (r *Row) since(text, wrong string) string {
	if text == "" {
		return "<unknown>"
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return wrong
	}
	return duration.HumanDuration(r.Now.Sub(t))
}
