package source

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// Lines of any length come out as they went in, however the connection cuts them up and whenever the buffer shrinks; a
// line that the end cuts is not delivered.
func TestLines(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var want [][]byte
	for range 300 {
		size := random.IntN(200)
		if random.IntN(10) == 0 {
			size = random.IntN(200 << 10)
		}
		want = append(want, bytes.Repeat([]byte{byte('a' + random.IntN(26))}, size))
	}
	text := append(bytes.Join(want, []byte("\n")), '\n')
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader, "with the error": iotest.DataErrReader,
		"pieces": func(r io.Reader) io.Reader { return &pieces{r, random} },
	} {
		t.Run(name, func(t *testing.T) {
			checkLines(t, wrap(bytes.NewReader(text)), want, io.EOF, random)
			checkLines(t, wrap(bytes.NewReader(append(text[:len(text):len(text)], "cut"...))), want, io.ErrUnexpectedEOF, random)
			checkLines(t, io.MultiReader(wrap(bytes.NewReader(text)), iotest.ErrReader(errSilent)), want, errSilent, random)
		})
	}
}

func checkLines(t *testing.T, from io.Reader, want [][]byte, end error, random *rand.Rand) {
	t.Helper()
	l := newLines(from)
	for i := range want {
		line, err := l.next()
		if random.IntN(3) == 0 {
			l.rest()
		}
		if err != nil || !bytes.Equal(line, want[i]) {
			t.Fatalf("line %d: %d bytes, %v; want %d", i, len(line), err, len(want[i]))
		}
	}
	if line, err := l.next(); !errors.Is(err, end) {
		t.Errorf("at the end: %q, %v; want %v", line, err, end)
	}
}

// pieces gives a random number of bytes at a time.
type pieces struct {
	io.Reader
	random *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:1+p.random.IntN(len(b))]) }
