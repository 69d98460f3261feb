package lost

import (
	"testing"

	"kubecdc/test/servers"
)

// The test counts what is lost, repeated and missed. A deletion that was found later, without a version of its own, is none of these.
func TestJudge(t *testing.T) {
	history := []servers.EtcdEvent{{Op: "c", Key: "/r/ns/a", Revision: 5}, {Op: "u", Key: "/r/ns/a", Revision: 6}, {Op: "d", Key: "/r/ns/a", Revision: 7},
		{Op: "c", Key: "/r/ns/a", Revision: 8}, {Op: "d", Key: "/r/ns/a", Revision: 9}, {Op: "u", Key: "/r/ns/old", Revision: 10}, {Op: "d", Key: "/r/ns/old", Revision: 11}}
	reports := []report{{"ns/a", 5, false}, {"ns/a", 5, false}, {"ns/a", 6, false}, {"ns/a", 6, true}, {"ns/old", 3, false}, {"ns/old", 3, true}}
	want := verdict{Changes: 7, Lost: 3, Deletes: 3, Missed: 1, Repeated: 1}
	if got := judge(history, "/r/", reports); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
