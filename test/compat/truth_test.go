package compat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type object = map[string]any

// objects are what the API server holds, by resource.
type objects map[string][]object

// list reads what the cluster holds now.
func (s *stack) list(ctx context.Context) (objects, error) {
	all := objects{}
	for _, kind := range kinds {
		list, err := s.cluster.Resource(kind.GVR).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.ID(), err)
		}
		for _, item := range list.Items {
			all[kind.ID()] = append(all[kind.ID()], item.Object)
		}
	}
	return all, nil
}

// row is one line of a table, in the shape that its consumer gives it.
type row = any

// digest is what two tables are compared by.
type digest struct {
	Count int
	Hash  string
}

func (d digest) String() string { return fmt.Sprintf("%d rows, hash %s", d.Count, d.Hash) }

// digestOf is the number of rows, and a hash of their sorted JSON texts. Members that are null, or empty, count as absent.
func digestOf(rows []row) digest {
	texts := make([]string, len(rows))
	for i, r := range rows {
		text, err := json.Marshal(r)
		if err == nil {
			var plain any
			if plain, err = decode(text); err == nil {
				text, err = json.Marshal(compact(plain))
			}
		}
		if err != nil {
			text = []byte(err.Error())
		}
		texts[i] = string(text)
	}
	slices.Sort(texts)
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return digest{Count: len(rows), Hash: fmt.Sprintf("%x", sum[:4])}
}

// decode keeps numbers as they are written.
func decode(text []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return value, d.Decode(&value)
}

// compact removes members that are null or empty.
func compact(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if member = compact(member); member == nil {
				delete(v, name)
			} else {
				v[name] = member
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = compact(v[i])
		}
	}
	return value
}

// field reads a member of an object by its path.
func field(o object, path ...string) any {
	var value any = o
	for _, name := range path {
		members, _ := value.(object)
		value = members[name]
	}
	return value
}

func keyOf(o object) object {
	return object{"cluster": clusterName, "namespace": field(o, "metadata", "namespace"), "name": field(o, "metadata", "name")}
}

// wholeObjects are the rows of a consumer that keeps all of each object.
func completeObjects(resources ...string) func(objects) []row {
	return func(live objects) (rows []row) {
		for _, resource := range resources {
			for _, o := range live[resource] {
				rows = append(rows, object{"key": keyOf(o), "object": o})
			}
		}
		return rows
	}
}

// parseRows reads rows of JSON, one a line.
func parseRows(text []byte) (rows []row, err error) {
	for line := range strings.Lines(string(text)) {
		value, err := decode([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("a row that is no JSON: %.100q: %w", line, err)
		}
		rows = append(rows, value)
	}
	return rows, nil
}

// record is what a consumer prints that keeps no table.
type record struct{ key, value string }

// fold makes a table of records: of each key the last one counts.
func fold(records []record) ([]row, error) {
	last := map[string]row{}
	for _, r := range records {
		value, err := decode([]byte(r.value))
		if err != nil {
			return nil, fmt.Errorf("value of %s: %.100q: %w", r.key, r.value, err)
		}
		key, err := decode([]byte(r.key))
		if err != nil {
			return nil, fmt.Errorf("key %.100q: %w", r.key, err)
		}
		change, _ := value.(object)
		after, _ := change["after"].(object)
		if after == nil {
			delete(last, r.key)
		} else {
			last[r.key] = object{"key": key, "object": after}
		}
	}
	rows := make([]row, 0, len(last))
	for _, r := range last {
		rows = append(rows, r)
	}
	return rows, nil
}
