package checkpointtest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Bind binds a store to the cluster of that uid.
func Bind(t testing.TB, store checkpoint.Store, cluster, uid string) {
	t.Helper()
	if _, err := store.Bind(t.Context(), cluster, change.ClusterIdentity{UID: uid}); err != nil {
		t.Fatal(err)
	}
}

func rebind(t *testing.T, s *suite) {
	s.bind()
	_, err := s.store.Bind(s.ctx, "prod", change.ClusterIdentity{UID: "uid-2", CA: "ca-2"})
	wantOther(t, err, "uid-1", "uid-2", "KUBECDC_CLUSTER")
	Bind(t, s.store, "staging", "uid-2")
}

// identities runs the starts of one exporter whose rights, and whose cluster's CA, change.
func identities(t *testing.T, s *suite) {
	const refusal = `namespaces "kube-system" is forbidden`
	bind := func(uid, ca string) (checkpoint.Binding, error) {
		found := change.ClusterIdentity{UID: uid, CA: ca}
		if uid == "" {
			found.Hidden = refusal
		}
		return s.store.Bind(s.ctx, "of many names", found)
	}
	same := func(uid, ca, wantUID string, lost bool) {
		t.Helper()
		b, err := bind(uid, ca)
		if err != nil || b.ID != "ca-1" || b.Known.UID != wantUID || b.Known.CA != ca || b.UIDHidden() != lost {
			t.Errorf("%q %q: %+v %v", uid, ca, b, err)
		}
	}
	other := func(uid, ca string, says ...string) {
		t.Helper()
		_, err := bind(uid, ca)
		wantOther(t, err, says...)
	}
	same("", "ca-1", "", false)
	other("", "ca-2", "ca-1", "ca-2", "docs/operations.md")
	same("uid-1", "ca-1", "uid-1", false) // the right was granted
	same("uid-1", "ca-2", "uid-1", false) // the CA was replaced
	other("uid-2", "ca-2", "uid-1", "uid-2", "KUBECDC_CLUSTER")
	same("", "ca-2", "uid-1", true) // the right was lost
	other("", "ca-3", "uid-1", "ca-3", refusal, "grant get on namespace kube-system")
	same("uid-1", "ca-3", "uid-1", false)
}

func bindAtOnce(t *testing.T, s *suite) {
	for round := range 20 {
		name := fmt.Sprint("prod-", round)
		if _, err := s.store.Bind(s.ctx, name, change.ClusterIdentity{CA: "ca"}); err != nil {
			t.Fatal(err)
		}
		var errs [2]error
		var both sync.WaitGroup
		for i := range errs {
			both.Go(func() {
				_, errs[i] = s.store.Bind(s.ctx, name, change.ClusterIdentity{UID: fmt.Sprint("uid-", i), CA: "ca"})
			})
		}
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("round %d: %v", round, errs)
		}
	}
}

func wantOther(t *testing.T, err error, says ...string) {
	t.Helper()
	var other *checkpoint.OtherClusterError
	if !errors.As(err, &other) {
		t.Fatalf("error is %v, not an OtherClusterError", err)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("lacks %q: %v", text, err)
		}
	}
	if lost := other.Stored.UID != "" && other.Found.UID == ""; lost && strings.Contains(err.Error(), "KUBECDC_CLUSTER") {
		t.Errorf("advises another name: %v", err)
	}
}
