// Package oracle compares what a log has with etcd's own history and with the cluster. It reads logs as consumers do, and shares nothing
// with the exporter but the names in package change.
package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// Verdict compares the topics with etcd's own history.
type Verdict struct {
	Changes   int // that etcd tells of, after each stream's snapshot
	Lost      int
	Repeated  int
	Reordered int
	Wrong     int              // a final state that differs, a before that is not the after before it, a record that etcd does not know
	Ops       map[string]Count // changes by op
	Objects   int              // that the cluster has
	Examples  []string
}

// Count is how many changes there are in etcd's history and in the log.
type Count struct{ Etcd, Log int }

// Report counts what is wrong, and records the first examples.
func (v *Verdict) Report(counter *int, format string, args ...any) {
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

// Judge reads etcd and compares a log with it. Every change after a stream's snapshot must be in the log once, with its own revision, in
// order. Only the outcome of the snapshot itself is checked.
func Judge(ctx context.Context, k *servers.Kubernetes, log *Log, prefix string, kinds ...Kind) (*Verdict, error) {
	v := &Verdict{Ops: map[string]Count{}}
	for _, kind := range kinds {
		if err := v.judge(ctx, k, log, prefix, kind); err != nil {
			return nil, fmt.Errorf("judge %s: %w", kind.ID(), err)
		}
	}
	for _, c := range log.Controls {
		if c.Type == change.ControlProof && c.Proof.Result == change.ProofDifferent {
			v.Report(&v.Wrong, "a proof of %s at %s: %s", c.Stream, c.ResourceVersion, c.Proof)
		}
	}
	return v, nil
}

func (v *Verdict) judge(ctx context.Context, k *servers.Kubernetes, log *Log, prefix string, kind Kind) error {
	from := log.SnapshotEnd(kind.ID())
	if from < 0 {
		v.Report(&v.Lost, "%s: the control topic shows no end of a snapshot", kind.ID())
		return nil
	}
	events, err := k.EtcdHistory(ctx, kind.Prefix, from+1)
	if err != nil {
		return err
	}
	byKey := log.ByKey(prefix, kind)
	seen := map[string]bool{}
	for key, records := range byKey {
		for _, r := range v.InOrder(kind, key, records) {
			if n, _ := strconv.ParseInt(string(r.Version), 10, 64); n > from && r.Op != "r" {
				seen[fmt.Sprintf("%s %s @%s", r.Op, key, r.Version)] = true
				v.count(r.Op, 0, 1)
			}
		}
	}
	for _, e := range events {
		v.Changes++
		v.count(e.Op, 1, 0)
		id := fmt.Sprintf("%s %s @%d", e.Op, strings.TrimPrefix(e.Key, kind.Prefix), e.Revision)
		if !seen[id] {
			v.Report(&v.Lost, "lost: %s %s", kind.ID(), id)
		}
		delete(seen, id)
	}
	for id := range seen {
		v.Report(&v.Wrong, "etcd does not know: %s %s", kind.ID(), id)
	}
	return v.FinalState(ctx, k, kind, byKey)
}

func (v *Verdict) count(op string, etcd, log int) {
	c := v.Ops[op]
	v.Ops[op] = Count{c.Etcd + etcd, c.Log + log}
}

// InOrder walks the records of one key as they stand in the partition, and returns the changes, each once.
func (v *Verdict) InOrder(kind Kind, key string, records []Record) (changes []Record) {
	last, prior, known := change.ResourceVersion(""), Record{}, map[string]bool{}
	for i, r := range records {
		if i > 0 && r.Partition != prior.Partition {
			v.Report(&v.Reordered, "%s %s stands in two partitions", kind.ID(), key)
		}
		if prior.Op == "d" && r.Op != "" && !prior.Bare {
			v.Report(&v.Wrong, "%s %s @%s: no tombstone follows the delete", kind.ID(), key, prior.Version)
		}
		if r.Op == "" {
			prior = r
			continue
		}
		id := fmt.Sprintf("%s %s %s @%s", r.Op, key, r.UID, r.Version)
		if known[id] {
			v.Report(&v.Repeated, "repeated: %s %s", kind.ID(), id)
			prior.Op = r.Op // a repeated delete has its tombstone too
			continue
		}
		known[id] = true
		v.beforeFits(kind, key, prior, r)
		if c := r.Version.Compare(last); c < 0 || c == 0 && r.Op != "d" {
			v.Report(&v.Reordered, "out of order: %s %s after @%s", kind.ID(), id, last)
		}
		last, prior = r.Version, r
		changes = append(changes, r)
	}
	return changes
}

// beforeFits demands that the before of an update or delete equals the object's last state in the log.
func (v *Verdict) beforeFits(kind Kind, key string, prior, r Record) {
	if r.Op != "u" && r.Op != "d" || prior.After == nil || r.Bare {
		return
	}
	if string(r.Before) != string(prior.After) {
		v.Report(&v.Wrong, "%s %s %s @%s: before is not the after of @%s", kind.ID(), r.Op, key, r.Version, prior.Version)
	}
}

// FinalState demands that a replay of the log into a map yields the cluster's objects, field for field.
func (v *Verdict) FinalState(ctx context.Context, k *servers.Kubernetes, kind Kind, byKey map[string][]Record) error {
	replayed := map[string]any{}
	for key, records := range byKey {
		if last := records[len(records)-1]; last.Op != "" && last.Op != "d" {
			var object any
			if err := json.Unmarshal(last.After, &object); err != nil {
				return fmt.Errorf("read %s: %w", key, err)
			}
			replayed[key] = object
		}
	}
	client, err := dynamic.NewForConfig(k.Config)
	if err != nil {
		return err
	}
	list, err := client.Resource(kind.GVR).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, item := range list.Items {
		v.Objects++
		key := change.ObjectKey(item.GetNamespace(), item.GetName())
		raw, _ := item.MarshalJSON()
		var want any
		_ = json.Unmarshal(raw, &want)
		if got := replayed[key]; !reflect.DeepEqual(got, want) {
			v.Report(&v.Wrong, "%s %s: the replayed log does not hold the cluster's state @%s", kind.ID(), key, item.GetResourceVersion())
		}
		delete(replayed, key)
	}
	for _, key := range slices.Sorted(maps.Keys(replayed)) {
		v.Report(&v.Wrong, "%s %s: in the replayed log, not in the cluster", kind.ID(), key)
	}
	return nil
}
