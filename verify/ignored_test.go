package verify_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
	"kubecdc/verify"
)

// logged is a log: its changes are "key version uid body", or "key version uid body stream op", its proofs of pods, as digests.
type logged struct {
	sinks.Reader
	changes []string
	proof   *change.Proof
}

func (l logged) Changes(_ context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	for _, text := range l.changes {
		key, o := parse(text)
		c := sinks.Logged{Change: change.Change{Stream: pods, Op: change.Update, Name: key, UID: o.UID, ResourceVersion: o.Version,
			After: []byte(strings.Fields(text)[3])}}
		if f := strings.Fields(text); len(f) > 4 {
			c.Stream, c.Op = change.ParseStream(change.StreamID(f[4])), change.Op(f[5][0])
		}
		if !q.Wanted(&c) {
			continue
		}
		if err := visit(&c); err != nil {
			return err
		}
	}
	return nil
}

func (l logged) Controls(_ context.Context, _ time.Time, visit func(*change.Control) error) error {
	batch := change.BatchControl("", change.BatchEnd{Positions: []change.Position{{Stream: pods.ID(), ResourceVersion: "12"}}})
	return errors.Join(visit(&change.Control{Type: change.ControlProof, Stream: pods.ID(), ResourceVersion: "9", Proof: l.proof,
		TimeMs: time.Now().UnixMilli()}), visit(&batch))
}

func (l logged) KeptSince(context.Context, string) (time.Time, error) { return time.Time{}, nil }

// Of an object "SPEC/BEAT" the spec counts.
func spec(object []byte) ([]byte, error) {
	counts, _, _ := bytes.Cut(object, []byte("/"))
	return counts, nil
}

func TestIgnoredUpdatesAreNoDifference(t *testing.T) {
	for name, c := range map[string]struct {
		filter             verify.Filter
		live, held, logged string // "key version uid body"
		ignored, compacted bool
	}{
		"a field that is ignored":        {verify.Filter{Counts: spec}, "a 5 u x/2", "a 1 u", "a 1 u x/1", true, false},
		"a field that counts":            {verify.Filter{Counts: spec}, "a 5 u y/2", "a 1 u", "a 1 u x/1", false, false},
		"its position is compacted":      {verify.Filter{Counts: spec}, "a 5 u x/2", "a 1 u", "a 1 u x/1", true, true},
		"all fields count":               {verify.Filter{}, "a 5 u x/2", "a 1 u", "a 1 u x/1", false, false},
		"a version of the inventory":     {verify.Filter{Counts: spec}, "a 5 u x/2", "a 3 u", "a 1 u x/1", true, false},
		"older than the log":             {verify.Filter{Counts: spec}, "a 5 u x/2", "a 1 u", "a 2 u x/1", false, false},
		"newer than the API server's":    {verify.Filter{Counts: spec}, "a 5 u x/2", "a 6 u", "a 6 u x/1", false, false},
		"another object":                 {verify.Filter{Counts: spec, Updates: true}, "a 5 u x/2", "a 1 v", "a 1 v x/1", false, false},
		"no updates":                     {verify.Filter{Updates: true}, "a 5 u y/2", "a 1 u", "", true, false},
		"an object that the log has not": {verify.Filter{Counts: spec}, "a 5 u x/2", "a 1 u", "b 1 u x/1", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := world{position: "9", live: []string{c.live}, held: []string{c.held}}
			r, err := verify.Stream(t.Context(), w.read, w.copy(), pods)
			if err != nil || len(r.Differences) != 1 {
				t.Fatal(r, err)
			}
			live := func(_ context.Context, at change.ResourceVersion, visit func(string, change.ResourceVersion, []byte)) error {
				if at != "" && c.compacted {
					return discovery.ErrCompacted
				}
				key, o := parse(c.live)
				visit(key, o.Version, []byte(strings.Fields(c.live)[3]))
				return nil
			}
			var changes []string
			if c.logged != "" {
				changes = []string{c.logged}
			}
			if err := c.filter.TakeOut(t.Context(), r, pods, logged{changes: changes}, live); err != nil {
				t.Fatal(err)
			}
			if ignored := r.Ignored == 1 && len(r.Differences) == 0; ignored != c.ignored {
				t.Errorf("%d ignored, %d differ", r.Ignored, len(r.Differences))
			}
		})
	}
}

// A log without some updates can't be compared with a proof that has their versions; a lacking object still shows.
func TestAProofWhoseUpdatesAreIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		proof          change.Proof
		problem, equal bool
	}{
		"masked":                  {change.Proof{Masked: true, Objects: 1, Digest: "x"}, true, false},
		"masked, lacks an object": {change.Proof{Masked: true, Objects: 2, Digest: "x"}, false, false},
		"not masked":              {change.Proof{Objects: 1, Digest: "x"}, false, false},
	} {
		log := logged{changes: []string{"a 1 u x"}, proof: &c.proof}
		all, err := verify.Proofs(t.Context(), log, func(string) bool { return true })
		if err != nil || len(all) != 1 || (all[0].Problem != "") != c.problem || all[0].Equal != c.equal {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
}

// A proof is compared with what the topic has of each key, whichever stream wrote it, and with versions that were never there.
func TestAProofIsComparedByKey(t *testing.T) {
	var digest change.Digest
	digest.Add("a", "a", "5")
	proof := change.Proof{Objects: 1, Digest: digest.String()}
	for name, c := range map[string]struct {
		changes []string
		equal   bool
	}{
		"equal":                     {[]string{"a 5 a x"}, true},
		"newer than the proof":      {[]string{"a 5 a x", "a 11 a x"}, true},
		"deleted by another stream": {[]string{"a 5 a x", "a 7 a x pods?label=b d"}, false},
		"an object of another one":  {[]string{"a 5 a x", "b 7 b x pods?label=b u"}, true},
		"from the future":           {[]string{"a 5 a x", "a 99 a x"}, false},
	} {
		all, err := verify.Proofs(t.Context(), logged{changes: c.changes, proof: &proof}, func(string) bool { return true })
		if err != nil || len(all) != 1 || all[0].Equal != c.equal {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
}
