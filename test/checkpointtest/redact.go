package checkpointtest

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

func hashKey(t *testing.T, s *suite) {
	got := make([]string, 8)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			key, err := s.store.HashKey(s.ctx, []byte{0, byte(i), 255})
			if got[i] = string(key); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, key := range got {
		if key != got[0] || len(key) != 3 {
			t.Fatalf("replicas that start at once have the keys %q", got)
		}
	}
	Bind(t, s.store, "staging", "uid-2")
	if key, err := s.store.HashKey(s.ctx, []byte("other")); err != nil || string(key) != "other" {
		t.Fatalf("another cluster has the key %q %v", key, err)
	}
}

func redactBodies(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	const many = 250 // several pages
	var secrets []checkpoint.Object
	for i := range many {
		o := object(fmt.Sprintf("ns/%03d", i), "u", "7")
		o.Body = checkpoint.Pack(fmt.Appendf(nil, "secret %d", i))
		secrets = append(secrets, o)
	}
	secrets = append(secrets, checkpoint.Object{Key: "ns/none", UID: "u", ResourceVersion: "7"})
	s.put(0, epoch, 1, "secrets", secrets...)
	s.put(0, epoch, 2, "pods", checkpoint.Object{Key: "ns/000", UID: "u", ResourceVersion: "7",
		Body: checkpoint.Pack([]byte("secret of a pod"))})
	s.wantRedacted(map[change.StreamID]string{"secrets": "", "pods": ""})

	visited := 0
	hide := func(key string, body []byte) []byte {
		visited++
		if key == "ns/003" {
			return nil
		}
		return bytes.Replace(body, []byte("secret"), []byte("hidden"), 1)
	}
	s.must(s.store.Redact(s.ctx, 0, epoch, []checkpoint.Redaction{
		{Stream: "secrets", Rules: "hide", Rewrite: hide}, {Stream: "new", Rules: "hide", Rewrite: hide}}))
	s.wantRedacted(map[change.StreamID]string{"secrets": "hide", "pods": "", "new": "hide"})
	if visited != many {
		t.Errorf("%d bodies were rewritten of %d", visited, many)
	}
	if n := len(s.inventory("secrets")); n != len(secrets) {
		t.Errorf("%d objects are left of %d", n, len(secrets))
	}
	var keys []string
	for _, o := range secrets {
		keys = append(keys, o.Key)
	}
	found := Bodies(t, s.store, "secrets", keys...)
	if _, retained := found["ns/003"]; len(found) != many-1 || retained {
		t.Errorf("%d bodies are left, the forgotten one among them: %v", len(found), retained)
	}
	for key, body := range found {
		if !strings.HasPrefix(body, "hidden ") {
			t.Fatalf("the body of %s is %q", key, body)
		}
	}
	if found := Bodies(t, s.store, "pods", keys...); found["ns/000"] != "secret of a pod" {
		t.Errorf("another stream's bodies are %q", found)
	}
	s.must(s.store.Redact(s.ctx, 0, epoch, []checkpoint.Redaction{{Stream: "secrets"}}))
	s.wantRedacted(map[change.StreamID]string{"secrets": "", "pods": "", "new": "hide"})
	s.put(0, epoch, 3, "secrets", checkpoint.Object{Key: "ns/003", UID: "u", ResourceVersion: "8",
		Body: checkpoint.Pack([]byte("in full"))})
	found = Bodies(t, s.store, "secrets", "ns/003", "ns/004")
	if found["ns/003"] != "in full" || found["ns/004"] != "hidden 4" {
		t.Errorf("bodies are %q", found)
	}
}

func redactFenced(t *testing.T, s *suite) {
	old := s.acquire(0, "a").Epoch
	s.put(0, old, 1, "secrets", checkpoint.Object{Key: "ns/a", UID: "u", ResourceVersion: "7",
		Body: checkpoint.Pack([]byte("secret"))})
	s.acquire(0, "a")
	forget := func(string, []byte) []byte { return nil }
	hide := []checkpoint.Redaction{{Stream: "secrets", Rules: "hide", Rewrite: forget}}
	s.wantError(s.store.Redact(s.ctx, 0, old, hide), checkpoint.ErrFenced)
	s.wantRedacted(map[change.StreamID]string{"secrets": ""})
	if found := Bodies(t, s.store, "secrets", "ns/a"); found["ns/a"] != "secret" {
		t.Errorf("bodies are %q", found)
	}
}

func (s *suite) wantRedacted(want map[change.StreamID]string) {
	s.t.Helper()
	got, err := s.store.Redacted(s.ctx)
	s.must(err)
	if !reflect.DeepEqual(got, want) {
		s.t.Errorf("the recorded rules are %v, want %v", got, want)
	}
}
