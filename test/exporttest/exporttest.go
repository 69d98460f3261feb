// Package exporttest has what the tests of export/ share.
package exporttest

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/export/live"
	"kubecdc/export/plan"
	"kubecdc/test/checkpointtest"
)

// Pods and Secrets are streams.
var (
	Pods    = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	Secrets = change.NewStream(change.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}, "ns", "app=x", "")
)

// Store returns an empty checkpoint.
func Store(t testing.TB) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "checkpoint.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	checkpointtest.Bind(t, store, "prod", "uid")
	return store
}

// Owned returns an empty checkpoint with a slot of epoch 1.
func Owned(t testing.TB) checkpoint.Store {
	t.Helper()
	store := Store(t)
	if _, err := store.Acquire(t.Context(), 0, "a", time.Minute); err != nil {
		t.Fatal(err)
	}
	return store
}

// Parts returns parts that report nothing.
func Parts(store checkpoint.Store) *plan.Watched {
	log := slog.New(slog.DiscardHandler)
	return plan.Watch(time.Minute, plan.Parts{Store: store, State: live.New(log, 0), Logger: log})
}
