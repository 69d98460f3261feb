package checkpoint

import (
	"bytes"
	"testing"
)

// Compressed bodies can be decompressed, and the bytes before them are unchanged.
func FuzzAppendCompressed(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("{}"))
	f.Add(bytes.Repeat([]byte(`{"metadata":{"name":"a"}}`), 1000))
	f.Fuzz(func(t *testing.T, body []byte) {
		compressed := appendCompressed([]byte("before"), body)
		if !bytes.HasPrefix(compressed, []byte("before")) {
			t.Fatalf("appendCompressed changed what stood before: %q", compressed[:6])
		}
		got, err := decompress(make([]byte, len(body)/2), compressed[len("before"):])
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%v: %d bytes came back as %d", err, len(body), len(got))
		}
	})
}

// Damaged or foreign bytes lead to an error.
func TestDecodeRefuses(t *testing.T) {
	compressed := appendCompressed(nil, []byte(`{"metadata":{"name":"a"}}`))
	for _, damaged := range [][]byte{nil, {}, {0}, []byte("\x28\xb5\x2f\xfd"), compressed[:len(compressed)/2], append([]byte{1}, compressed[1:]...)} {
		if body, err := decompress(nil, damaged); err == nil {
			t.Errorf("%.20q decodes to %.20q", damaged, body)
		}
	}
}
