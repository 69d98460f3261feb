package change

import "testing"

func TestAStreamsIDIsParsed(t *testing.T) {
	for _, r := range []Resource{{Plural: "pods"}, {Group: "a.example.com", Plural: "widgets"}} {
		for _, namespace := range []string{"", "shop"} {
			for _, labels := range []string{"", "app=a,tier in (b,c),x!=y"} {
				for _, fields := range []string{"", "status.phase=Running,metadata.name!=labels"} {
					s := NewStream(r, namespace, labels, fields)
					got := ParseStream(s.ID())
					if again := ParseStream(SnapshotOf(s).ID()); again.ID() != SnapshotOf(s).ID() || again.Resource != (Resource{Group: r.ID(), Plural: "snapshot_of"}) {
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

// A custom resource may be named as snapshots on demand are: their topics are not its own.
func TestAResourceNamedSnapshotHasATopicOfItsOwn(t *testing.T) {
	named := Resource{Group: "pods.example.com", Plural: "snapshot"}
	resource := SnapshotOf(NewStream(Resource{Group: "example.com", Plural: "pods"}, "", "", "")).Resource
	if topic := Topic("p", named); IsSnapshotTopic("p", topic) || topic == Topic("p", resource) || !IsSnapshotTopic("p", Topic("p", resource)) {
		t.Errorf("the resource's topic is %s, and that of snapshots %s", topic, Topic("p", resource))
	}
}
