// Package exporttest has what the tests of export/ share.
package exporttest

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/export/inventory"
	"kubecdc/export/live"
	"kubecdc/export/plan"
	"kubecdc/redact"
	"kubecdc/source/discovery"
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

// Slot returns the facts of a slot whose API server nobody asks.
func Slot(t testing.TB, store checkpoint.Store, resources string, mode redact.Mode) *plan.Slot {
	t.Helper()
	patterns, err := discovery.ParsePatterns(strings.Split(resources, ","))
	if err != nil {
		t.Fatal(err)
	}
	parts := Parts(store)
	if parts.Server, err = discovery.Connect(&rest.Config{Host: "http://nobody"}); err != nil {
		t.Fatal(err)
	}
	return &plan.Slot{Parts: parts, Logger: parts.Logger, Config: plan.Config{Cluster: "prod", Resources: patterns, Slots: 1, Before: true,
		Content: plan.Content{Secrets: mode, Key: redact.Key("a key of the tests")}}}
}

// Inventory returns the inventory of a slot.
func Inventory(s *plan.Slot, cacheBytes int64) *inventory.Slot {
	return &inventory.Slot{
		Settings: inventory.Settings{Slot: s.Number, Bodies: s.Config.Before, CacheBytes: cacheBytes, Owns: s.Owns, Redactor: s.Config.BodyRedactor},
		Parts:    inventory.Parts{Store: s.Parts.Store, State: s.Parts.State, Watchdog: s.Parts.Watchdog, Logger: s.Logger}}
}
