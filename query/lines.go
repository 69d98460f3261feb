package query

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Line is one line of what differs between two images of an object, as people read it.
type Line struct {
	Sign  byte   // + added, - removed, ~ changed; a blank: a line of a text that stays, or … in place of several
	Path  string // empty: the line is one of the text whose path was named before
	Parts []Part
	Words bool // the parts are of one text, of which some words differ
}

// Part is a part of a value: Sign is + if it is new, - if it is gone, and a blank if it stays or does not count.
type Part struct {
	Sign byte
	Text string
}

// bookkeeping are the members of metadata that change with every update. The server writes them, nobody asks for them.
var bookkeeping = []string{"managedFields", "resourceVersion", "generation"}

// Lines tells what differs, without what changes with every update unless all is asked for.
func Lines(before, after []byte, all bool) ([]Line, error) {
	old, err1 := decode(before, all)
	now, err2 := decode(after, all)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("compare two images of an object: %w", cmp.Or(err1, err2))
	}
	var c comparison
	c.values("", old, now)
	return c.lines, nil
}

func decode(body []byte, all bool) (v any, err error) {
	err = decodeExactly(body, &v)
	if object, ok := v.(map[string]any); ok && !all {
		if metadata, ok := object["metadata"].(map[string]any); ok {
			for _, name := range bookkeeping {
				delete(metadata, name)
			}
		}
	}
	return v, err
}

// comparison collects the lines of two values.
type comparison struct{ lines []Line }

func (c *comparison) add(sign byte, path string, parts ...Part) {
	c.lines = append(c.lines, Line{sign, path, parts, false})
}

func (c *comparison) values(path string, old, now any) {
	switch a := old.(type) {
	case map[string]any:
		if b, ok := now.(map[string]any); ok {
			c.objects(path, a, b)
			return
		}
	case []any:
		if b, ok := now.([]any); ok {
			c.lists(path, a, b)
			return
		}
	case string:
		if b, ok := now.(string); ok && a != b && c.texts(path, a, b) {
			return
		}
	}
	if !reflect.DeepEqual(old, now) {
		c.add('~', path, Part{'-', value(old)}, Part{' ', " → "}, Part{'+', value(now)})
	}
}

func (c *comparison) objects(path string, old, now map[string]any) {
	names := maps.Clone(old)
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at := member(path, name)
		a, was := old[name]
		b, is := now[name]
		switch {
		case !was:
			c.add('+', at, Part{'+', value(b)})
		case !is:
			c.add('-', at, Part{'-', value(a)})
		default:
			c.values(at, a, b)
		}
	}
}

// lists compares by the items' key, if they have one; else by what stays in the same order.
func (c *comparison) lists(path string, old, now []any) {
	key := keyOf(old, now)
	if key == "" {
		c.sequences(path, old, now)
		return
	}
	before, was := byKey(old, key)
	after, is := byKey(now, key)
	var stayed, stays []string
	for _, k := range was {
		if _, ok := after[k]; ok {
			stayed = append(stayed, k)
			c.values(path+k, before[k], after[k])
		} else {
			c.add('-', path+k, Part{'-', value(before[k])})
		}
	}
	for _, k := range is {
		if _, ok := before[k]; ok {
			stays = append(stays, k)
		} else {
			c.add('+', path+k, Part{'+', value(after[k])})
		}
	}
	if !slices.Equal(stayed, stays) {
		c.add('~', path, Part{' ', "in another order: " + strings.Join(stayed, "") + " → " + strings.Join(stays, "")})
	}
}

// keys are members that tell the items of Kubernetes' lists apart.
var keys = []string{"name", "type", "containerPort", "port", "uid", "key", "ip", "mountPath", "devicePath", "topologyKey", "id"}

// keyOf returns the member that each item of both lists has, with a value of its own.
func keyOf(lists ...[]any) string {
	for _, key := range keys {
		if !slices.ContainsFunc(lists, func(items []any) bool {
			found, order := byKey(items, key)
			return order == nil && len(items) > 0 || len(found) < len(items)
		}) {
			return key
		}
	}
	return ""
}

// byKey returns the items by their key as a path has it, and the keys in order; nothing if an item has none.
func byKey(items []any, key string) (found map[string]any, order []string) {
	found = map[string]any{}
	for _, item := range items {
		object, _ := item.(map[string]any)
		var k string
		switch v := object[key].(type) {
		case string:
			k = v
			if _, err := strconv.Atoi(k); err == nil || strings.ContainsAny(k, `[]" =`) || k == "" {
				k = value(k)
			}
		case json.Number:
			k = v.String()
		default:
			return nil, nil
		}
		if key != "name" {
			k = key + "=" + k
		}
		found["["+k+"]"], order = item, append(order, "["+k+"]")
	}
	return found, order
}

// sequences compares items that have no key. As many new ones in the place of old ones are those changed.
func (c *comparison) sequences(path string, old, now []any) {
	for _, h := range hunks(encoded(old), encoded(now)) {
		if h.old.len() == h.now.len() {
			for i := range h.old.len() {
				c.values(fmt.Sprintf("%s[%d]", path, h.now.from+i), old[h.old.from+i], now[h.now.from+i])
			}
			continue
		}
		for i := h.old.from; i < h.old.to; i++ {
			c.add('-', fmt.Sprintf("%s[%d]", path, i), Part{'-', value(old[i])})
		}
		for i := h.now.from; i < h.now.to; i++ {
			c.add('+', fmt.Sprintf("%s[%d]", path, i), Part{'+', value(now[i])})
		}
	}
}

func encoded(items []any) (texts []string) {
	for _, item := range items {
		texts = append(texts, value(item))
	}
	return texts
}

func value(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimRight(b.String(), "\n")
}

// member is the path of a member: spec.replicas, metadata.labels["app.kubernetes.io/name"].
func member(path, name string) string {
	switch {
	case name == "" || strings.ContainsAny(name, `./"[] `):
		return path + "[" + value(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}
