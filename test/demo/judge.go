package main

import (
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"
)

// errDiffers is the verdict that the demo must not give.
var errDiffers = errors.New("the topics differ from what happened")

// verdict compares one kind's topic with etcd's history, change by change.
type verdict struct {
	kind   kind
	wanted map[string]int // by op
	found  map[string]int
	wrong  map[string]int // changes that are missing, too many or not as etcd says
	// The order and form of the topic.
	disordered int // records that are not newer than the one before of the same object
	bare       int // deletions that no tombstone follows
	examples   []string
}

func judge(k kind, h history, l *topicLog) (*verdict, error) {
	end := l.snapshotEnd(k)
	if end == nil {
		return nil, fmt.Errorf("the control topic does not say that the first list of %s has ended", k)
	}
	snapshot, err := end.ResourceVersion.Revision()
	if err != nil {
		return nil, fmt.Errorf("read where the first list of %s was taken: %w", k, err)
	}
	v := &verdict{kind: k, wanted: map[string]int{}, found: map[string]int{}, wrong: map[string]int{}}
	v.compare(h.records(k, snapshot), l.by(k))
	v.inspect(l.by(k))
	return v, nil
}

// compare counts each change: once in etcd's history, once in the topic.
func (v *verdict) compare(wanted []event, found []*record) {
	balance := map[event]int{}
	for _, e := range wanted {
		v.wanted[e.op]++
		balance[e]++
	}
	for _, r := range found {
		if r.op == "" {
			continue
		}
		v.found[r.op]++
		balance[event{r.op, r.key, r.revision}]--
	}
	for e, n := range balance {
		switch {
		case n > 0:
			v.note(e, "is missing")
		case n < 0:
			v.note(e, "stands in the topic, but not so often in etcd's history")
		}
	}
}

func (v *verdict) note(e event, what string) {
	v.wrong[e.op]++
	if len(v.examples) < 5 {
		v.examples = append(v.examples, fmt.Sprintf("%s %s %s at revision %d %s", v.kind, e.key, opNames[e.op], e.revision, what))
	}
}

// inspect looks at the order: revisions grow for each object, which stays in its partition, and a tombstone follows
// each deletion at once.
func (v *verdict) inspect(found []*record) {
	newest := map[string]*record{}
	before := map[int32]*record{} // by partition
	for _, r := range found {
		last := before[r.partition]
		if last != nil && last.op == "d" && (r.op != "" || r.key != last.key) {
			v.bare++
		}
		before[r.partition] = r
		if r.op == "" {
			continue
		}
		if old := newest[r.key]; old != nil && !r.follows(old) {
			v.disordered++
		}
		newest[r.key] = r
	}
	for _, last := range before {
		if last.op == "d" {
			v.bare++
		}
	}
}

// follows reports whether a record may come after another of the same object. An inferred deletion has no
// resourceVersion of its own: it carries the last one that is known.
func (r *record) follows(old *record) bool {
	newer := r.revision > old.revision || r.revision == old.revision && r.op == "d" && old.op != "d"
	return newer && r.partition == old.partition
}

func (v *verdict) ok() bool { return len(v.wrong) == 0 && v.disordered == 0 && v.bare == 0 }

// rows adds a line for each op that there is.
func (v *verdict) rows(t *table) {
	name := v.kind.String()
	for _, op := range []string{"r", "c", "u", "d"} {
		if v.wanted[op]+v.found[op] == 0 {
			continue
		}
		mark := cell{green, "✓"}
		if v.wanted[op] != v.found[op] || v.wrong[op] > 0 {
			mark = cell{red, "✗"}
		}
		t.add(cell{plain, name}, cell{plain, op + "  " + opNames[op]}, cell{plain, humanize.Comma(int64(v.wanted[op]))},
			cell{plain, humanize.Comma(int64(v.found[op]))}, mark)
		name = ""
	}
}
