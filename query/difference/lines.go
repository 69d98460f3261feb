package difference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Line is one line of the difference between two images of an object, for people to read.
type Line struct {
	Sign  byte   // + added, - removed, ~ changed, blank: an unchanged line of a text, or … for several
	Path  string // empty: a line of the text that the path before names
	Parts []Part
	Words bool // the parts are one text in which some words differ
}

// Part is a part of a value. Sign is + if it is new, - if it is gone, and a blank if it is unchanged.
type Part struct {
	Sign byte
	Text string
}

// Marked returns the text of a part. Brackets mark words of a text that are gone or new, also in a copy without colours.
func (l *Line) Marked(p Part) string {
	switch {
	case l.Words && p.Sign == '-':
		return "[-" + p.Text + "-]"
	case l.Words && p.Sign == '+':
		return "{+" + p.Text + "+}"
	}
	return p.Text
}

// bookkeeping are the members of metadata that the server changes with every update. They are not part of a question.
var bookkeeping = []string{"managedFields", "resourceVersion", "generation"}

// copies are annotations in which programs store a copy of the object.
var copies = []string{"kubectl.kubernetes.io/last-applied-configuration", "kapp.k14s.io/original",
	"objectset.rio.cattle.io/applied",
	"banzaicloud.com/last-applied", "kopf.zalando.org/last-handled-configuration"}

// withoutBookkeeping removes bookkeeping and copies from an object.
func withoutBookkeeping(image any) {
	object, _ := image.(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	maps.DeleteFunc(metadata, func(name string, _ any) bool { return slices.Contains(bookkeeping, name) })
	annotations, _ := metadata["annotations"].(map[string]any)
	before := len(annotations)
	maps.DeleteFunc(annotations, func(name string, _ any) bool { return slices.Contains(copies, name) })
	if len(annotations) == 0 && before > 0 {
		delete(metadata, "annotations")
	}
}

// Lines returns the difference between two images. Unless all is set, it leaves out bookkeeping and copies of the object.
func Lines(before, after []byte, all bool) ([]Line, error) {
	c := comparison{budget: mostPairs}
	var images [2]any
	for i, body := range [][]byte{before, after} {
		if err := decodeExactly(body, &images[i]); err != nil {
			return nil, fmt.Errorf("compare two images of an object: %w", err)
		}
	}
	if !all {
		withoutBookkeeping(images[0])
		withoutBookkeeping(images[1])
	}
	c.values("", images[0], images[1])
	return c.lines, nil
}

// comparison collects the lines of two values.
type comparison struct {
	budget
	lines []Line
}

func (c *comparison) add(sign byte, path string, parts ...Part) {
	c.lines = append(c.lines, Line{sign, path, parts, false})
}

// replaced adds one line for a value that is too long to be compared.
func (c *comparison) replaced(path, what string, old, now int) {
	text := fmt.Sprintf("replaced: %s %s", humanize.Comma(int64(old)), what)
	if now != old {
		text += " by " + humanize.Comma(int64(now))
	}
	c.add('~', path, Part{' ', text})
}

func (c *comparison) values(path string, old, now any) {
	switch a := old.(type) {
	case map[string]any:
		if b, ok := now.(map[string]any); ok {
			c.objects(path, a, b, member)
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

func (c *comparison) objects(path string, old, now map[string]any, pathOf func(path, name string) string) {
	names := maps.Clone(old)
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, wasThere := old[name]
		b, isThere := now[name]
		switch memberPath := pathOf(path, name); {
		case !wasThere:
			c.add('+', memberPath, Part{'+', value(b)})
		case !isThere:
			c.add('-', memberPath, Part{'-', value(a)})
		default:
			c.values(memberPath, a, b)
		}
	}
}

// keys are members that identify the items of Kubernetes' lists.
var keys = []string{"name", "type", "containerPort", "port", "uid", "key", "ip", "mountPath", "devicePath", "topologyKey", "id"}

// lists compares items by their key if both lists have one. Otherwise it compares them by their order.
func (c *comparison) lists(path string, old, now []any) {
	for _, key := range keys {
		before, oldOrder := byKey(old, key)
		after, newOrder := byKey(now, key)
		if before == nil || after == nil {
			continue
		}
		c.objects(path, before, after, func(path, name string) string { return path + name })
		oldOrder = slices.DeleteFunc(oldOrder, func(k string) bool { return after[k] == nil })
		newOrder = slices.DeleteFunc(newOrder, func(k string) bool { return before[k] == nil })
		if !slices.Equal(oldOrder, newOrder) {
			c.add('~', path, Part{' ', "in another order: " + strings.Join(oldOrder, "") + " → " + strings.Join(newOrder, "")})
		}
		return
	}
	c.sequences(path, old, now)
}

// byKey returns the items by their key, as a path shows it, and the keys in order. It returns nil if an item has no key, or if
// two items have the same.
func byKey(items []any, key string) (found map[string]any, order []string) {
	found = map[string]any{}
	for _, item := range items {
		object, _ := item.(map[string]any)
		text, isText := object[key].(string)
		number, isNumber := object[key].(json.Number)
		if _, err := strconv.Atoi(text); isText && (err == nil || text == "" || strings.ContainsAny(text, `[]" =`)) {
			text = value(text)
		}
		k := "[" + text + string(number) + "]"
		if key != "name" {
			k = "[" + key + "=" + k[1:]
		}
		if found[k] != nil || !isText && !isNumber {
			return nil, nil
		}
		found[k], order = item, append(order, k)
	}
	return found, order
}

// sequences compares items without a key. If as many new items are in the place of old ones, they count as changed.
func (c *comparison) sequences(path string, old, now []any) {
	itemPath := func(i int) string { return fmt.Sprintf("%s[%d]", path, i) }
	hunks, compared := c.hunks(encoded(old), encoded(now))
	if !compared {
		c.replaced(path, "items", hunks[0].old.len(), hunks[0].now.len())
		return
	}
	for _, h := range hunks {
		changed := h.old.len() == h.now.len()
		for i := h.old.from; i < h.old.to && !changed; i++ {
			c.add('-', itemPath(i), Part{'-', value(old[i])})
		}
		for i := h.now.from; i < h.now.to; i++ {
			if changed {
				c.values(itemPath(i), old[h.old.from+i-h.now.from], now[i])
			} else {
				c.add('+', itemPath(i), Part{'+', value(now[i])})
			}
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

// member returns the path of a member, such as spec.replicas or metadata.labels["app.kubernetes.io/name"].
func member(path, name string) string {
	switch {
	case name == "" || strings.ContainsAny(name, `./"[] `):
		return path + "[" + value(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// InWords describes a difference in a few words: the first members, with their values if they are short.
func InWords(lines []Line) string {
	const most, long = 3, 30
	var words []string
	for _, l := range lines {
		if l.Path == "" {
			continue
		}
		value := ""
		for _, p := range l.Parts {
			value += p.Text
		}
		word := l.Path
		switch {
		case l.Sign == '~' && value != "" && len(value) <= long:
			word += " " + value
		case l.Sign != '~':
			word = string(l.Sign) + word
		}
		if words = append(words, word); len(words) > most {
			words[most] = "…"
			break
		}
	}
	return strings.Join(words, ", ")
}
