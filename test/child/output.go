package child

import (
	"bytes"
	"sync"
)

// Output is what a process has written so far. It may be read while the process writes.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// Bytes returns a copy.
func (o *Output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.b.Bytes())
}

func (o *Output) String() string { return string(o.Bytes()) }
