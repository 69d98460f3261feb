package apiclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"kubecdc/internal/rawjson"
)

// Lines of any length come as they were sent, in reads of any size. They do not change while they are held, whatever is read into the
// slabs of lines that were released.
func TestLines(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var body bytes.Buffer
	var want []string
	for i := range 2000 {
		n := random.IntN(5000)
		if random.IntN(50) == 0 {
			n = random.IntN(500_000)
		}
		want = append(want, strings.Repeat(fmt.Sprint(i), n/4))
		body.WriteString(want[i] + "\n")
	}
	for name, reader := range map[string]io.Reader{
		"whole": bytes.NewReader(body.Bytes()), "halves": iotest.HalfReader(bytes.NewReader(body.Bytes())),
		"with the end": iotest.DataErrReader(bytes.NewReader(body.Bytes())),
	} {
		l, n := newLines(reader), 0
		var held []func()
		line, err := l.next()
		for ; err == nil; line, err = l.next() {
			held = append(held, sameLater(t, l, line, want[n]))
			if n++; len(held) > 300 {
				held[0]()
				held = held[1:]
			}
			if random.IntN(100) == 0 {
				l.shrink()
			}
		}
		if err != io.EOF || n != len(want) {
			t.Fatalf("%s: %d lines of %d, then %v", name, n, len(want), err)
		}
		for _, check := range held {
			check()
		}
	}
	broken := newLines(io.MultiReader(strings.NewReader("whole\n"), iotest.ErrReader(ErrIdle)))
	if line, err := broken.next(); string(line) != "whole" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := broken.next(); err != ErrIdle {
		t.Errorf("a connection that went silent ends with %v", err)
	}
	cut := newLines(strings.NewReader("whole\ncut"))
	if line, err := cut.next(); string(line) != "whole" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := cut.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a line cut in its middle ends with %v", err)
	}
}

// sameLater holds a line. What it returns checks that the line is still the same, and releases it.
func sameLater(t *testing.T, l *lines, line []byte, want string) func() {
	held := l.slab.Hold()
	return func() {
		if string(line) != want {
			t.Fatalf("a line is %.40q…, want %.40q…", line, want)
		}
		held.Release()
	}
}

// endless repeats a byte for ever.
type endless byte

func (e endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(e)
	}
	return len(b), nil
}

// A line that never ends ends the watch.
func TestALineThatNeverEnds(t *testing.T) {
	l := newLines(io.MultiReader(strings.NewReader("whole\n"), endless('x')))
	if line, err := l.next(); string(line) != "whole" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := l.next(); !errors.Is(err, rawjson.ErrMalformed) || !strings.Contains(err.Error(), "more than 1073741824 bytes") {
		t.Errorf("error %v", err)
	}
}
