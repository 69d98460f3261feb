package main

import (
	"context"
	"strings"

	"kubecdc/test/servers"
)

// history is etcd's own history, by kind: the topics are compared with it.
type history map[kind][]event

// event is one write of one object.
type event struct {
	op       string // r, c, u, d
	key      string // namespace/name
	revision uint64
}

// readHistory reads it from etcd, without the API server and the exporter.
func (t *story) readHistory(ctx context.Context) (history, error) {
	all, err := t.stack.kube.EtcdHistory(ctx, "/registry/", 1)
	if err != nil {
		return nil, err
	}
	return historyOf(all), nil
}

func historyOf(all []servers.EtcdEvent) history {
	h := history{}
	for _, e := range all {
		for _, k := range kinds {
			if key, ok := strings.CutPrefix(e.Key, k.etcd); ok {
				h[k] = append(h[k], event{e.Op, key, uint64(e.Revision)})
			}
		}
	}
	return h
}

// last is the revision of the newest change of a kind.
func (h history) last(k kind) uint64 {
	if n := len(h[k]); n > 0 {
		return h[k][n-1].revision
	}
	return 0
}

// between are a kind's changes after one revision and up to another.
func (h history) between(k kind, after, upTo uint64) (found []event) {
	for _, e := range h[k] {
		if e.revision > after && e.revision <= upTo {
			found = append(found, e)
		}
	}
	return found
}

// records are what must stand in the topic of a kind of which the first list was taken at a revision: what was alive
// then, and every change since.
func (h history) records(k kind, snapshot uint64) (wanted []event) {
	alive := map[string]uint64{}
	for _, e := range h.between(k, 0, snapshot) {
		alive[e.key] = e.revision
		if e.op == "d" {
			delete(alive, e.key)
		}
	}
	for key, revision := range alive {
		wanted = append(wanted, event{"r", key, revision})
	}
	return append(wanted, h.between(k, snapshot, ^uint64(0))...)
}
