package checkpoint_test

import (
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

func TestWhichClustersAreTheSame(t *testing.T) {
	id := func(uid, ca string) change.ClusterIdentity { return change.ClusterIdentity{UID: uid, CA: ca} }
	for _, c := range []struct {
		known, found, after change.ClusterIdentity
		same                bool
	}{
		{id("u", "c"), id("u", "c"), id("u", "c"), true},
		{id("u", "c"), id("u", "d"), id("u", "d"), true},  // CAs are replaced
		{id("u", "c"), id("u", ""), id("u", "c"), true},   // a kubeconfig without a CA
		{id("u", "c"), id("v", "c"), id("u", "c"), false}, // two clusters may share a CA
		{id("u", "c"), id("", "c"), id("u", "c"), true},   // the right was lost
		{id("u", "c"), id("", "d"), id("u", "c"), false},
		{id("u", ""), id("", "c"), id("u", ""), false},  // nothing to compare
		{id("", "c"), id("u", "c"), id("u", "c"), true}, // the right was granted
		{id("", "c"), id("u", "d"), id("", "c"), false},
		{id("", "c"), id("u", ""), id("", "c"), false},
		{id("", "c"), id("", "c"), id("", "c"), true},
		{id("", "c"), id("", "d"), id("", "c"), false},
	} {
		next, same := checkpoint.Binding{ID: c.known.ID(), Known: c.known}.Match(c.found)
		if same != c.same || next.Known != c.after || next.ID != c.known.ID() {
			t.Errorf("known %v, found %v: %v, %+v", c.known, c.found, same, next)
		}
	}
}
