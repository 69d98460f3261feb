package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// No beginning of a valid value is taken for malformed, since the rest may follow.
func TestBeginningsAreNotMalformed(t *testing.T) {
	raw := []byte(` {"a\"b\u00e9" : [ -1.5e+10 , true,false , null ,"",{} , [ ],0 ] ,"c":{"d":"long enough for eight bytes"} } `)
	for n := range len(raw) - 1 {
		if end := skipValue(raw[:n], 0, 0); end != cut {
			t.Errorf("%s: %d, want %d", raw[:n], end, cut)
		}
	}
}

// A Reader returns every element of an array larger than its buffer, some of which are larger too, and holds only the buffer.
func TestReader(t *testing.T) {
	testReader(t, (*Reader).Value)
}

// Scan returns the values that Value returns, and its function sees each of them.
func TestReaderScans(t *testing.T) {
	testReader(t, func(r *Reader) (raw []byte, err error) {
		var seen []byte
		raw, ok, err := r.Scan(func(s *Scanner) { seen = s.Skip() })
		if err == nil && (!ok || string(seen) != string(raw)) {
			t.Errorf("%q is seen as %q, %t", raw, seen, ok)
		}
		return raw, err
	})
}

func testReader(t *testing.T, value func(*Reader) ([]byte, error)) {
	var want []string
	for i := range 2000 {
		want = append(want, fmt.Sprintf(`{"name":"n%d","text":%q}`, i, strings.Repeat("x\n", i%300)))
	}
	want[1000] = `"` + strings.Repeat("large ", readerBytes) + `"`
	text := ` {"kind" : "List", "items": [` + strings.Join(want, " , ") + `] }`
	r, got := NewReader(strings.NewReader(text)), []string(nil)
	err := r.Object(func(name string) error {
		if name != "items" {
			_, err := r.Value()
			return err
		}
		return r.Array(func() error {
			raw, err := value(r)
			got = append(got, string(raw))
			return err
		})
	})
	if err != nil || strings.Join(got, "") != strings.Join(want, "") {
		t.Errorf("error %v, %d elements, want %d as they were written", err, len(got), len(want))
	}
	if r.gone+int64(len(r.b)) < int64(len(text)) || len(r.b) > len(want[1000])*3 {
		t.Errorf("%d bytes were passed, and %d held", r.gone, len(r.b))
	}
}

// A Reader accepts the texts that encoding/json accepts, to the end of the stream and however the bytes come. A text that ends too
// early has another error than a malformed one.
func FuzzReader(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":null}]}`, `{}`, ` { } `, `{"a":1,}`, `{"a" 1}`, `{1:2}`, `{"a":`, `[]`, ``, `{"a":tru}`, `{"a":1]`,
		`{}{}`, `{"a":1}}`, `{} x`, `{"a":"\ud800"}`, `{"a":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`,
		`{"a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		isObject := json.Valid(b) && bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{"))
		for _, from := range []io.Reader{bytes.NewReader(b), iotest.OneByteReader(bytes.NewReader(b)), iotest.DataErrReader(bytes.NewReader(b))} {
			r := NewReader(from)
			err := r.Object(func(string) error {
				_, err := r.Value()
				return err
			})
			if err == nil {
				err = r.End()
			}
			if (err == nil) != isObject || err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%q: %v", b, err)
			}
		}
	})
}

// A value that is too large is skipped, whatever its strings contain and however it comes, and the next values are read. Its
// beginning is scanned. A value that does not end is an error.
func TestLargeValues(t *testing.T) {
	filler := strings.Repeat(`"\\\"}{][",{"a":[1,"]"]},`, LargestValue/20)
	large := `{"id":7,"items":[` + filler + `0]}`
	for name, from := range map[string]func(io.Reader) io.Reader{"all": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader} {
		r := NewReader(from(strings.NewReader(`[1,` + large + `,"after",` + large + `]`)))
		var got []string
		err := r.Array(func() error {
			id := ""
			raw, _, err := r.Scan(func(s *Scanner) {
				if !s.AtObject() {
					s.Skip()
					return
				}
				for name, more := s.First(); more; name, more = s.Next() {
					if value := s.Skip(); string(name) == "id" {
						id = string(value)
					}
				}
			})
			var tooLarge *TooLargeError
			if errors.As(err, &tooLarge) {
				if tooLarge.Bytes != int64(len(large)) || !strings.HasPrefix(large, string(raw)) || len(raw) == 0 {
					t.Errorf("%s: %v of %d bytes, begins %.20q", name, err, len(large), raw)
				}
				raw, err = []byte("large "+id), nil
			}
			got = append(got, string(raw))
			return err
		})
		if err = errors.Join(err, r.End()); err != nil || fmt.Sprint(got) != `[1 large 7 "after" large 7]` {
			t.Errorf("%s: read %.100q, error %v", name, got, err)
		}
		if len(r.b) > LargestValue {
			t.Errorf("%s: it holds %d bytes", name, len(r.b))
		}
	}
	for _, begin := range []string{`["`, `[["x",`} {
		r := NewReader(io.MultiReader(strings.NewReader(begin), spaces{}))
		if err := r.Array(func() error { _, err := r.Value(); return err }); !errors.Is(err, ErrEndless) {
			t.Errorf("%s: error %v", begin, err)
		}
	}
}

type spaces struct{}

func (spaces) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte(" "), len(b))), nil }
