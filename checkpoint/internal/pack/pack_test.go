package pack

import (
	"bytes"
	"testing"
)

// Whatever was packed comes back, and what stood before it stays.
func FuzzPack(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("{}"))
	f.Add(dictionaryText)
	f.Add(bytes.Repeat(dictionaryText, 20))
	f.Fuzz(func(t *testing.T, body []byte) {
		packed := Append([]byte("before"), body)
		if !bytes.HasPrefix(packed, []byte("before")) {
			t.Fatalf("Append changed what stood before: %q", packed[:6])
		}
		got, err := Unpack(packed[len("before"):])
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%v: %d bytes came back as %d", err, len(body), len(got))
		}
	})
}

// What is broken, or from somewhere else, is an error.
func TestUnpackRefuses(t *testing.T) {
	whole := Append(nil, dictionaryText)
	for _, packed := range [][]byte{nil, {}, {0}, []byte("\x28\xb5\x2f\xfd"), whole[:len(whole)/2], append([]byte{2}, whole[1:]...)} {
		if body, err := Unpack(packed); err == nil {
			t.Errorf("%.20q unpacks to %.20q", packed, body)
		}
	}
}
