package commit

import (
	"fmt"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/redact"
)

// Updates that change only ignored fields are left out. The before-image of the object's next change is its state in the log, and
// that body is remembered with the newest version.
func TestIgnoredUpdates(t *testing.T) {
	path, err := redact.ParsePath("status.beat")
	mustDo(t, err)
	mask := redact.NewMask([]redact.Path{path})
	ignoring := &Filter{mask: func(change.StreamID) *redact.Mask { return mask }}
	body := func(state string) []byte {
		spec, beat, _ := strings.Cut(state, "/")
		return fmt.Appendf(nil, `{"spec":%q,"status":{"beat":%q}}`, spec, beat)
	}
	for _, tc := range []struct {
		name   string
		filter *Filter
		// The changes of one object: the operation, and the body after it. L is an update that the log has lost, S one whose body
		// the store seems to lack. The first update has the body a/1 before it.
		changes       string
		written       string // operation, body before, body after
		known         string // body and version of the object afterwards, or empty if it was deleted
		leftOutOfThem int
	}{
		{"all are written", nil, "u a/2; u a/3", "u a/1 a/2; u a/2 a/3", "a/3@2", 0},
		{"an ignored update", ignoring, "u a/2", "", "a/1@1", 1},
		{"two ignored ones", ignoring, "u a/2; u a/3", "", "a/1@2", 2},
		{"one that counts after ignored ones", ignoring, "u a/2; u a/3; u b/3", "u a/1 b/3", "b/3@3", 2},
		{"ignored ones after one that counts", ignoring, "u b/2; u b/3; u b/4", "u a/1 b/2", "b/2@3", 2},
		{"a deletion after an ignored one", ignoring, "u a/2; d", "d a/1 ", "", 1},
		{"another object of the name", ignoring, "u a/2; d; c a/2; u a/3", "d a/1 ; c  a/2", "a/2@4", 2},
		{"a change that comes and goes", ignoring, "u b/2; u a/2", "u a/1 b/2; u b/2 a/2", "a/2@2", 0},
		{"an object that the log has lost", ignoring, "L a/2", "u a/1 a/2", "a/2@1", 0},
		{"a body that the store lacked while it was on its way", ignoring, "u a/2; S a/2", "", "a/1@2", 1},
		{"no updates", &Filter{noUpdates: true}, "u b/2; u c/3; d", "d a/1 ", "", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			states := map[string]string{"": ""}
			batch := &change.Batch{Seq: 1}
			for i, text := range strings.Split(tc.changes, "; ") {
				op, state, _ := strings.Cut(text, " ")
				c := change.Change{Stream: change.ParseStream("nodes"), Op: change.Op(op[0]), Name: "n", ResourceVersion: change.VersionOf(uint64(i + 1))}
				if c.Lost, c.Logged = op == "L", op == "S"; c.Lost || c.Logged {
					c.Op = change.Update
				}
				if state != "" {
					c.After = body(state)
					states[string(c.After)] = state
				}
				batch.Changes = append(batch.Changes, c)
			}
			states[string(body("a/1"))] = "a/1"
			batch.Changes[0].Before = body("a/1")
			p := &batching.Prepared{Batch: batch}
			p.Find()
			ignored := p.LeaveOut(tc.filter.leavesOut, true)
			var written []string
			for _, c := range batch.Changes {
				written = append(written, c.Op.String()+" "+states[string(c.Before)]+" "+states[string(c.After)])
			}
			if got := strings.Join(written, "; "); got != tc.written || ignored["nodes"] != tc.leftOutOfThem {
				t.Errorf("written %q, %v left out; want %q, %d", got, ignored, tc.written, tc.leftOutOfThem)
			}
			known := ""
			if o := p.All[0]; !o.Deleted {
				known = states[string(o.State)] + "@" + string(o.Version)
			}
			if known != tc.known {
				t.Errorf("what is known of the object is %q, want %q", known, tc.known)
			}
		})
	}
}
