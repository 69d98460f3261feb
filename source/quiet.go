package source

import (
	"context"
	"errors"
	"io"
	"time"
)

var errSilent = errors.New("the connection went silent: no byte, no end")

// quietBody ends the read of a body that no byte comes from any more: a half-open connection. The clock runs only
// while we wait for the server, not while the log makes us wait.
type quietBody struct {
	body   io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	silent *time.Timer
	quiet  time.Duration
}

func (b *quietBody) Read(p []byte) (int, error) {
	b.silent.Reset(b.quiet)
	n, err := b.body.Read(p)
	b.silent.Stop()
	if err != nil && errors.Is(context.Cause(b.ctx), errSilent) {
		err = errSilent
	}
	return n, err
}

func (b *quietBody) Close() error {
	b.cancel(nil)
	return b.body.Close()
}
