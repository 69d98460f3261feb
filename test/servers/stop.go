package servers

import (
	"context"
	"errors"
	"slices"
	"sync"
)

type stopper interface{ Stop() error }

var started struct {
	sync.Mutex
	servers []stopper
}

func register(s stopper) {
	started.Lock()
	defer started.Unlock()
	started.servers = append(started.servers, s)
}

// launch starts a new server, which StopAll will stop. If it does not start, its folder is not removed: the error names the log.
func launch(ctx context.Context, s stopper, i *instance, start func(context.Context) error) error {
	ctx, cancel := Patient(ctx)
	defer cancel()
	register(s)
	err := start(ctx)
	if err != nil {
		i.keep = true
		err = errors.Join(err, s.Stop())
	}
	return err
}

// unregister reports whether s was still registered: a second Stop does nothing.
func unregister(s stopper) bool {
	started.Lock()
	defer started.Unlock()
	i := slices.Index(started.servers, s)
	if i < 0 {
		return false
	}
	started.servers = slices.Delete(started.servers, i, i+1)
	return true
}

// StopAll stops every server that this process has started, the latest first. Call it before the process exits, and on Ctrl-C.
func StopAll() error {
	started.Lock()
	running := slices.Clone(started.servers)
	started.Unlock()
	slices.Reverse(running)
	var errs []error
	for _, s := range running {
		errs = append(errs, s.Stop())
	}
	return errors.Join(errs...)
}
