package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// Kind is a resource that a test writes, and where etcd keeps it.
type Kind struct {
	GVR    schema.GroupVersionResource
	Prefix string // in etcd
}

// ID is the resource's name in topics and streams.
func (k Kind) ID() string {
	if k.GVR.Group == "" {
		return k.GVR.Resource
	}
	return k.GVR.Resource + "." + k.GVR.Group
}

// Stream is the id of the stream that watches the kind.
func (k Kind) Stream() change.StreamID { return change.StreamID(k.ID()) }

// Verdict compares the topics with etcd's own history.
type Verdict struct {
	Changes   int // that etcd tells of, after each stream's snapshot
	Lost      int
	Repeated  int
	Reordered int
	Wrong     int // a final state that differs, a before that is not the after before it, a record that etcd does not know
	Examples  []string
}

func (v *Verdict) note(counter *int, format string, args ...any) {
	*counter++
	if few := counter != &v.Repeated || *counter <= 3; few && len(v.Examples) < 12 {
		v.Examples = append(v.Examples, fmt.Sprintf(format, args...))
	}
}

func (v *Verdict) String() string {
	return fmt.Sprintf("%d changes: %d lost, %d repeated, %d out of order, %d wrong", v.Changes, v.Lost, v.Repeated, v.Reordered, v.Wrong)
}

// Demand fails the test unless nothing is lost, out of order or wrong, and nothing repeated but what is allowed.
func (v *Verdict) Demand(t testing.TB, repeats int) {
	t.Helper()
	t.Log(v)
	if v.Lost+v.Reordered+v.Wrong > 0 || v.Repeated > repeats {
		t.Fatalf("%s\n%s", v, strings.Join(v.Examples, "\n"))
	}
}

// Judge reads etcd and the topics. Every change after a stream's snapshot must stand in the topic once, with its own
// revision, in order; from the snapshot itself only its outcome is demanded. strict=false lets changes that are
// marked inferred stand for those that a compaction took away.
func Judge(t testing.TB, k *servers.Kubernetes, log *Log, prefix string, kinds []Kind) *Verdict {
	t.Helper()
	v := &Verdict{}
	for _, kind := range kinds {
		judgeKind(t, v, k, log, prefix, kind)
	}
	for _, c := range log.Controls {
		if c.Type == change.ControlProof && c.Proof.Result == change.ProofDifferent {
			v.note(&v.Wrong, "a proof of %s at %s: %s", c.Stream, c.ResourceVersion, c.Proof)
		}
	}
	return v
}

func judgeKind(t testing.TB, v *Verdict, k *servers.Kubernetes, log *Log, prefix string, kind Kind) {
	t.Helper()
	from := snapshotEnd(log, kind.ID())
	if from < 0 {
		v.note(&v.Lost, "%s: the control topic shows no end of a snapshot", kind.ID())
		return
	}
	events, err := k.EtcdHistory(context.Background(), kind.Prefix, from+1)
	must(t, err)
	byKey := log.ByKey(prefix, kind)
	seen := map[string]bool{}
	for key, records := range byKey {
		v.inOrder(kind, key, records, seen, from)
	}
	for _, e := range events {
		v.Changes++
		id := fmt.Sprintf("%s %s @%d", e.Op, strings.TrimPrefix(e.Key, kind.Prefix), e.Revision)
		if !seen[id] {
			v.note(&v.Lost, "lost: %s %s", kind.ID(), id)
		}
		delete(seen, id)
	}
	for id := range seen {
		v.note(&v.Wrong, "etcd does not know: %s %s", kind.ID(), id)
	}
	v.finalState(t, k, kind, byKey)
}

// SinceLastSnapshot is a log in which some kinds begin with their last snapshots, as those do whose topics have lost records.
func (l *Log) SinceLastSnapshot(prefix string, kinds []Kind) *Log {
	since := *l
	since.Records, since.Controls = nil, nil
	of := func(resource string) bool {
		return slices.ContainsFunc(kinds, func(k Kind) bool { return k.ID() == resource })
	}
	first, end := map[string]int{}, map[change.StreamID]int{}
	for i, r := range l.Records {
		if r.Op == "r" && of(r.Resource(prefix)) {
			first[r.Topic+" "+r.Key] = i
		}
	}
	for i, r := range l.Records {
		if i >= first[r.Topic+" "+r.Key] {
			since.Records = append(since.Records, r)
		}
	}
	for i, c := range l.Controls {
		if c.Type == change.ControlSnapshotEnd && of(change.ResourceOf(c.Stream).ID()) {
			end[c.Stream] = i
		}
	}
	for i, c := range l.Controls {
		if c.Type != change.ControlSnapshotEnd || i >= end[c.Stream] {
			since.Controls = append(since.Controls, c)
		}
	}
	return &since
}

// snapshotEnd is the resourceVersion of the resource's first complete list; -1 when there is none. Where namespaces of it
// are streams of their own, it is the last of their first ones.
func snapshotEnd(log *Log, resource string) int64 {
	last, seen := int64(-1), map[change.StreamID]bool{}
	for _, c := range log.Controls {
		if c.Type == change.ControlSnapshotEnd && change.ResourceOf(c.Stream).ID() == resource && !seen[c.Stream] {
			n, _ := strconv.ParseInt(string(c.ResourceVersion), 10, 64)
			last, seen[c.Stream] = max(last, n), true
		}
	}
	return last
}

// inOrder walks the records of one key as they stand in the partition; seen takes those from after the snapshot.
func (v *Verdict) inOrder(kind Kind, key string, records []Record, seen map[string]bool, from int64) {
	last, prior, known := change.ResourceVersion(""), Record{}, map[string]bool{}
	for i, r := range records {
		if i > 0 && r.Partition != prior.Partition {
			v.note(&v.Reordered, "%s %s stands in two partitions", kind.ID(), key)
		}
		if prior.Op == "d" && r.Op != "" && !prior.Bare {
			v.note(&v.Wrong, "%s %s @%s: no tombstone follows the delete", kind.ID(), key, prior.Version)
		}
		if r.Op == "" {
			prior = r
			continue
		}
		id := fmt.Sprintf("%s %s %s @%s", r.Op, key, r.UID, r.Version)
		if known[id] {
			v.note(&v.Repeated, "repeated: %s %s", kind.ID(), id)
			prior.Op = r.Op // a repeated delete has its tombstone too
			continue
		}
		known[id] = true
		v.beforeFits(kind, key, prior, r)
		if c := r.Version.Compare(last); c < 0 || c == 0 && r.Op != "d" {
			v.note(&v.Reordered, "out of order: %s %s after @%s", kind.ID(), id, last)
		}
		last, prior = r.Version, r
		if n, _ := strconv.ParseInt(string(r.Version), 10, 64); n > from && r.Op != "r" {
			seen[fmt.Sprintf("%s %s @%s", r.Op, key, r.Version)] = true
		}
	}
}

// beforeFits demands that the before of an update or delete equals the object's last state in the log.
func (v *Verdict) beforeFits(kind Kind, key string, prior, r Record) {
	if r.Op != "u" && r.Op != "d" || prior.After == nil || r.Bare {
		return
	}
	if string(r.Before) != string(prior.After) {
		v.note(&v.Wrong, "%s %s %s @%s: before is not the after of @%s", kind.ID(), r.Op, key, r.Version, prior.Version)
	}
}

// finalState demands that a replay of the topic into a map yields the cluster's objects, field for field.
func (v *Verdict) finalState(t testing.TB, k *servers.Kubernetes, kind Kind, byKey map[string][]Record) {
	t.Helper()
	replayed := map[string]any{}
	for key, records := range byKey {
		if last := records[len(records)-1]; last.Op != "" && last.Op != "d" {
			var object any
			if err := json.Unmarshal(last.After, &object); err != nil {
				t.Fatalf("%s %s: %v", kind.ID(), key, err)
			}
			replayed[key] = object
		}
	}
	list, err := dynamic.NewForConfigOrDie(k.Config).Resource(kind.GVR).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		key := change.ObjectKey(item.GetNamespace(), item.GetName())
		raw, _ := item.MarshalJSON()
		var want any
		_ = json.Unmarshal(raw, &want)
		if got := replayed[key]; !reflect.DeepEqual(got, want) {
			v.note(&v.Wrong, "%s %s: the replayed topic does not hold the cluster's state @%s", kind.ID(), key, item.GetResourceVersion())
		}
		delete(replayed, key)
	}
	var ghosts []string
	for key := range replayed {
		ghosts = append(ghosts, key)
	}
	sort.Strings(ghosts)
	for _, key := range ghosts {
		v.note(&v.Wrong, "%s %s: in the replayed topic, not in the cluster", kind.ID(), key)
	}
}
