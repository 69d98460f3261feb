package change

import "testing"

func TestAStreamsIDIsTakenApart(t *testing.T) {
	for _, r := range []Resource{{Plural: "pods"}, {Group: "a.example.com", Plural: "widgets"}} {
		for _, namespace := range []string{"", "shop"} {
			for _, labels := range []string{"", "app=a,tier in (b,c),x!=y"} {
				for _, fields := range []string{"", "status.phase=Running,metadata.name!=labels"} {
					s := NewStream(r, namespace, labels, fields)
					got := ParseStream(s.ID())
					if again := ParseStream(SnapshotOf(s).ID()); again.ID() != SnapshotOf(s).ID() || again.Resource != (Resource{Group: r.ID(), Plural: "snapshot"}) {
						t.Errorf("%s is taken for %+v", SnapshotOf(s).ID(), again)
					}
					if got.Resource != r || got.Namespace != namespace || got.LabelSelector != labels || got.FieldSelector != fields || got.ID() != s.ID() {
						t.Errorf("%s is taken for %+v", s.ID(), got)
					}
				}
			}
		}
	}
}
