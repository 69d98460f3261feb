package servers

import (
	"context"
	"errors"
	"path/filepath"
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

// launch starts a new server, which StopAll will stop. If it does not start, its folder is kept: the error names the log.
func launch(ctx context.Context, s stopper, i *instance, start func(context.Context) error) error {
	ctx, cancel := Patient(ctx)
	defer cancel()
	register(s)
	err := oneAtATime(ctx, start)
	if err != nil {
		i.keep = true
		err = errors.Join(err, s.Stop())
	}
	return err
}

// oneAtATime starts a server while no other process starts one: a start keeps a processor busy for seconds, and several at once would take
// it from the tests that run.
func oneAtATime(ctx context.Context, start func(context.Context) error) error {
	dir, err := Dir()
	if err != nil {
		return err
	}
	unlock, err := lockFile(filepath.Join(dir, "start.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	return start(ctx)
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
