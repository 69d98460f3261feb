package reflector_test

import (
	"testing"

	"kubecdc/change"
	"kubecdc/source/reflector"
)

// A repair emits what the log lacks, has wrongly or has too much, and leaves out what has changed since it was compared.
func TestARepairEmitsWhatTheLogShouldHave(t *testing.T) {
	read := func(name, object string) step {
		var objects []string
		if object != "" {
			objects = []string{object}
		}
		return step{want: "list rv=10 match=Exact fields=metadata.name=" + name, body: listed("10", "", objects...)}
	}
	identity := func(letter, version string) *change.Identity {
		return &change.Identity{UID: uid(letter), ResourceVersion: change.ResourceVersion(version)}
	}
	play(t, scripted{log: resumed("10", "missing a 5", "stale b 6", "replaced c 7", "newer d 9", "unknown f 4"),
		steps: append(holds("10", "newer d 9"), step{want: "watch rv=10", hang: true}, read("missing", "missing a 5"), read("stale", "stale b 6"),
			read("replaced", "replaced c 7"), read("extra", ""), read("newer", "newer d 9"), read("unknown", "")),
		act: func(t *testing.T, r *reflector.Reflector) {
			n, err := r.Repair(t.Context(), "repair:7", []change.Repair{
				{Key: "default/missing", Live: identity("a", "5")},
				{Key: "default/stale", Live: identity("b", "6"), Held: identity("b", "2")},
				{Key: "default/replaced", Live: identity("c", "7"), Held: identity("x", "3")},
				{Key: "default/extra", Held: identity("e", "3")},
				{Key: "default/newer", Live: identity("d", "8")},
				{Key: "default/unknown"}, // only the inventory has it
			})
			if err != nil || n != 5 {
				t.Errorf("%d objects repaired, %v", n, err)
			}
		}, want: "c missing@5? u stale@6? d replaced@3? c replaced@7? d extra@3? d unknown@4? at 10", inspect: func(t *testing.T, s *script) {
			for _, c := range s.log.changes {
				if c.Gap != "repair:7" || !c.Lost {
					t.Errorf("%s of %s has the gap %q, and may be ignored: %v", c.Op, c.Name, c.Gap, !c.Lost)
				}
			}
		}})
}
