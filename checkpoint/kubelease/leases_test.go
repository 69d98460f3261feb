package kubelease_test

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/checkpointtest"
	"kubecdc/checkpoint/kubelease"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/source/apiclient"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// Two replicas on a real API server. They share one store, as two processes share a database.
func TestLeases(t *testing.T) {
	kube := servers.Kube(t)
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "c.db"))
	must(t, err)
	defer store.Close()
	checkpointtest.Bind(t, store, "any: name", "uid")
	cluster := servers.UniqueName()
	client, err := apiclient.New(kube.Config)
	must(t, err)
	a, err := kubelease.New(kube.Config, client.Guarded(), "default", cluster, store)
	must(t, err)
	b, err := kubelease.New(kube.Config, nil, "default", cluster, store)
	must(t, err)

	const ttl = 2 * time.Second
	first, err := a.Acquire(t.Context(), 3, "host/1/a", ttl)
	must(t, err)
	_, err = b.Acquire(t.Context(), 3, "host/2/b", ttl)
	wantHeld(t, err, "host/1/a")
	wantReplicas(t, a, "host/1/a", []string{"host/1/a"}, map[int]string{3: "host/1/a"})
	wantReplicas(t, b, "host/2/b", []string{"host/1/a", "host/2/b"}, map[int]string{3: "host/1/a"})

	wantOwners := func(now time.Time, want map[int]string) {
		t.Helper()
		got, err := kubelease.Owners(t.Context(), kube.Config, client.Guarded(), "default", cluster, now)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("the owners are %v, %v, not %v", got, err, want)
		}
	}
	wantOwners(time.Now(), map[int]string{3: "host/1/a"})
	wantOwners(time.Now().Add(2*ttl), map[int]string{})
	if _, err := kubelease.Owners(t.Context(), kube.Config, client.Guarded(), "kube-system", cluster, time.Now()); err == nil ||
		!strings.Contains(err.Error(), "KUBECDC_LEASES_NAMESPACE") {
		t.Errorf("in another namespace: %v", err)
	}

	must(t, a.Renew(t.Context(), 3, first.Epoch, ttl))
	must(t, a.Release(t.Context(), 3, first.Epoch))
	must(t, a.Leave(t.Context(), "host/1/a"))
	began := time.Now()
	second, err := b.Acquire(t.Context(), 3, "host/2/b", ttl)
	must(t, err)
	if second.Epoch != first.Epoch+1 {
		t.Errorf("epoch is %d after %d", second.Epoch, first.Epoch)
	}
	if err := a.Renew(t.Context(), 3, first.Epoch, ttl); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("the former owner's renewal: %v", err)
	}
	wantReplicas(t, a, "host/1/a", []string{"host/1/a", "host/2/b"}, map[int]string{3: "host/2/b"})
	// Only an epoch fences: another owner's lease without one ends this one's session, and no more.
	wantHeld(t, a.Renew(t.Context(), 3, second.Epoch, ttl), "host/2/b")

	servers.Await(t, "the silent owner's slot to be free", func() (bool, error) { // b is silent from now on
		_, err := a.Acquire(t.Context(), 3, "host/1/a", ttl)
		if err != nil {
			wantHeld(t, err, "host/2/b")
		}
		return err == nil, nil
	})
	if took := time.Since(began); took < ttl/2 {
		t.Errorf("the silent owner's slot was free after %s", took)
	}
	servers.Await(t, "the silent replica to be no member", func() (bool, error) { return len(heartbeat(t, a, "host/1/a").Members) == 1, nil })
	wantReplicas(t, a, "host/1/a", []string{"host/1/a"}, map[int]string{3: "host/1/a"})
	if err := b.Renew(t.Context(), 3, second.Epoch, ttl); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("the silent owner's renewal: %v", err)
	}
}

// The address leads to another cluster than the one that is exported: its leases say nothing, and it gets none.
func TestLeasesOfAnotherClusterAreNotUsed(t *testing.T) {
	kube := servers.Kube(t)
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "c.db"))
	must(t, err)
	defer store.Close()
	checkpointtest.Bind(t, store, "any: name", "uid")
	client, err := apiclient.New(kube.Config)
	must(t, err)
	cluster := servers.UniqueName()
	a, err := kubelease.New(kube.Config, client.Guarded(), "default", cluster, store)
	must(t, err)
	state, err := a.Acquire(t.Context(), 0, "host/1/a", time.Minute)
	must(t, err)
	client.Expect("the uid of the cluster that was there before")
	var other *apiclient.OtherClusterError
	if err := a.Renew(t.Context(), 0, state.Epoch, time.Minute); !errors.As(err, &other) {
		t.Errorf("a renewal: %v", err)
	}
	if _, err := a.Acquire(t.Context(), 1, "host/1/a", time.Minute); !errors.As(err, &other) {
		t.Errorf("an acquisition: %v", err)
	}
	if _, err := kubelease.Owners(t.Context(), kube.Config, client.Guarded(), "default", cluster, time.Now()); !errors.As(err, &other) {
		t.Errorf("a look: %v", err)
	}
	owners, err := kubelease.Owners(t.Context(), kube.Config, nil, "default", cluster, time.Now())
	if want := map[int]string{0: "host/1/a"}; err != nil || !reflect.DeepEqual(owners, want) {
		t.Errorf("the leases are %v, %v, not %v", owners, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantHeld(t *testing.T, err error, by string) {
	t.Helper()
	var held *checkpoint.HeldError
	if !errors.As(err, &held) || held.Owner != by {
		t.Fatalf("error is %v, not that %s holds it", err, by)
	}
}

func heartbeat(t *testing.T, l checkpoint.Leases, self string) checkpoint.Replicas {
	t.Helper()
	r, err := l.Heartbeat(context.Background(), self, 2*time.Second)
	must(t, err)
	return r
}

func wantReplicas(t *testing.T, l checkpoint.Leases, self string, members []string, slots map[int]string) {
	t.Helper()
	r := heartbeat(t, l, self)
	if !reflect.DeepEqual(r.Members, members) || !reflect.DeepEqual(r.Slots, slots) {
		t.Fatalf("members %q slots %v, want %q %v", r.Members, r.Slots, members, slots)
	}
}
