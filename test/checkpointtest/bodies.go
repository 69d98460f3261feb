package checkpointtest

import (
	"bytes"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Bodies reads the bodies of keys of a stream, unpacked.
func Bodies(t testing.TB, store checkpoint.Reader, stream change.StreamID, keys ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := store.Bodies(t.Context(), stream, keys, func(key string, packed checkpoint.Body) error {
		body, err := packed.Unpack()
		found[key] = string(body)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func bodies(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	want := map[string][]byte{
		"small":   []byte(`{"kind":"Pod"}`),
		"nul":     []byte("{\"a\":\"\\u0000\x00\xff\"}"),
		"empty":   {},
		"large":   bytes.Repeat([]byte(`{"name":"x","value":"y"},`), 100000),
		"replace": []byte("new"),
	}
	old := checkpoint.Pack([]byte("old"))
	s.put(0, epoch, 1, "pods", checkpoint.Object{Key: "replace", UID: "u", ResourceVersion: "1", Body: old},
		checkpoint.Object{Key: "forget", UID: "u", ResourceVersion: "1", Body: old})
	objects := []checkpoint.Object{object("none", "u", "1"), object("forget", "u", "2")}
	keys := []string{"none", "unknown", "forget"}
	for key, body := range want {
		objects = append(objects, checkpoint.Object{Key: key, UID: "u", ResourceVersion: "2", Body: checkpoint.Pack(body)})
		keys = append(keys, key)
	}
	s.put(0, epoch, 2, "pods", objects...)
	got := Bodies(t, s.store, "pods", keys...)
	if len(got) != len(want) {
		t.Errorf("%d bodies, not %d", len(got), len(want))
	}
	for key, body := range want {
		if g, ok := got[key]; !ok || g != string(body) {
			t.Errorf("body of %s is %.60q, not %.60q", key, g, body)
		}
	}
	if none := Bodies(t, s.store, "nodes", keys...); len(none) != 0 {
		t.Errorf("another stream has bodies: %v", none)
	}
}
