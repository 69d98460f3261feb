package e2e

import (
	"context"
	"testing"

	"kubecdc/test/oracle"
	"kubecdc/test/servers"
)

// These are the oracle's words.
type (
	Kind    = oracle.Kind
	Record  = oracle.Record
	Log     = oracle.Log
	Verdict = oracle.Verdict
)

// Judge compares the log with etcd's history, like the oracle's Judge.
func Judge(t testing.TB, k *servers.Kubernetes, log *Log, prefix string, kinds []Kind) *Verdict {
	t.Helper()
	v, err := oracle.Judge(context.Background(), k, log, prefix, kinds...)
	must(t, err)
	return v
}

// WantState demands that a replay of the log yields the cluster's objects.
func WantState(t testing.TB, w *World, log *Log, kinds ...Kind) {
	t.Helper()
	w.state(t, log, kinds...).Demand(t, 0)
}

func (w *World) state(t testing.TB, log *Log, kinds ...Kind) *Verdict {
	t.Helper()
	v := &Verdict{}
	for _, kind := range kinds {
		must(t, v.FinalState(context.Background(), w.Kube, kind, log.ByKey(w.Prefix, kind)))
	}
	return v
}
