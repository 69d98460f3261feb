package checkpointtest

import (
	"fmt"
	"reflect"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Version1 fills tables of version 1, in which an object that the log has lost has a minus before its resourceVersion, and which
// have a body, as hex, and no deltas.
const Version1 = `
insert into clusters (name, known_as, uid, ca) values ('prod', 'uid-1', 'uid-1', '');
insert into streams (cluster, name) select id, 'pods' from clusters;
insert into inventory (stream, key, uid, resource_version) select id, 'a', 'u1', '1' from streams;
insert into inventory (stream, key, uid, resource_version) select id, 'b', 'u2', '-2' from streams;
insert into inventory (stream, key, uid, resource_version) select id, '` + "c\x01" + `', 'u3', '3' from streams;
`

// Body1 is what version 1 stored of the body that wide gives of 1.
var Body1 = fmt.Sprintf("%x", checkpoint.Pack([]byte(wide(1))).Base)

// Upgraded tests a store that was opened on tables of version 1.
func Upgraded(t *testing.T, store checkpoint.Store) {
	defer store.Close()
	s := &suite{store: store, ctx: t.Context(), t: t}
	s.bind()
	marked := object("b", "u2", "2")
	marked.Lost = true
	s.wantInventory("pods", object("a", "u1", "1"), marked, object("c\x01", "u3", "3"))
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", object("b", "u2", "2"), object("c\x01", "u3", "4"))
	s.wantInventory("pods", object("a", "u1", "1"), object("b", "u2", "2"), object("c\x01", "u3", "4"))
	s.wantBodies(map[string]string{"a": wide(1)})
	s.put(0, epoch, 2, "pods", updated("a", 1, 2))
	s.wantBodies(map[string]string{"a": wide(2)})
	gap := []change.Control{{Type: change.ControlGap, Stream: "pods", Gap: &change.Gap{From: "1", To: "2"}}}
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 3, Controls: gap}))
	if got, err := s.store.LastControls(s.ctx); err != nil || !reflect.DeepEqual(got, gap) {
		t.Errorf("the last control records are %+v, %v", got, err)
	}
}
