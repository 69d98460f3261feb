package main

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// watch measures what the API server pays for a watch's events. It writes a thousand changes of a resource. Then it sends them again and
// again, to watches that begin before them.
func (l *load) watch(ctx context.Context) error {
	const changes, watches = 1000, 100
	if err := l.makeNodes(ctx); err != nil {
		return err
	}
	if err := each(ctx, nodes, func(i int) error { return l.send(ctx, "POST", podsPath, "kubectl", render(pod, i, now())) }); err != nil {
		return err
	}
	rest, err := l.cpuDuring(ctx, func() error { time.Sleep(20 * time.Second); return nil })
	if err != nil {
		return err
	}
	for _, r := range []struct {
		path  string
		write func(i int) error
	}{
		{podsPath, func(i int) error { return l.reReady(ctx, i, changes/nodes) }},
		{leasesPath, func(i int) error { return l.renew(ctx, i, changes/nodes) }},
		{nodesPath, func(i int) error { return l.beat(ctx, i, changes/nodes) }},
	} {
		var since int64
		for range 2 { // the server's cache of past events grows by what is written first
			since = l.last.Load()
			if err := each(ctx, nodes, r.write); err != nil {
				return err
			}
		}
		events, bytes, started := 0, 0, time.Now()
		busy, err := l.cpuDuring(ctx, func() error {
			for range watches {
				n, size, err := l.replay(ctx, r.path, since)
				if events, bytes = events+n, bytes+size; err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		cpu := (busy - rest) * time.Since(started).Seconds() / float64(events)
		fmt.Printf("%s: %d events of %d bytes: %.1f us of CPU each\n", r.path, events, bytes/events, 1e6*cpu)
	}
	return nil
}

// reReady sets the times of a pod's conditions.
func (l *load) reReady(ctx context.Context, i, times int) (err error) {
	for n := 0; n < times && err == nil; n++ {
		moment := time.Now().Add(time.Duration(n) * time.Second).UTC().Format(time.RFC3339)
		err = l.send(ctx, "PATCH", fmt.Sprintf("%s/web-%d/status", podsPath, i), "kubelet", render(podReady, i, moment))
	}
	return err
}

// replay reads what a watch sends from a version up to the last one.
func (l *load) replay(ctx context.Context, path string, since int64) (events, bytes int, err error) {
	stream, err := l.api.Get().AbsPath(path).Param("watch", "1").Param("resourceVersion", strconv.FormatInt(since, 10)).Stream(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer stream.Close()
	last := fmt.Sprintf(`"resourceVersion":"%d"`, l.last.Load())
	s := bufio.NewScanner(stream)
	for s.Buffer(nil, 1<<20); s.Scan(); {
		events, bytes = events+1, bytes+len(s.Bytes())
		if strings.Contains(s.Text(), last) {
			return events, bytes, nil
		}
	}
	return events, bytes, fmt.Errorf("watch %s from %d: it ended after %d events: %w", path, since, events, s.Err())
}

var cpuSeconds = regexp.MustCompile(`(?m)^process_cpu_seconds_total (.*)$`)

// cpuDuring is the part of a core that the API server uses while something is done.
func (l *load) cpuDuring(ctx context.Context, do func() error) (float64, error) {
	cpu := func() (float64, error) {
		text, err := l.api.Get().AbsPath("/metrics").DoRaw(ctx)
		m := cpuSeconds.FindSubmatch(text)
		if err != nil || m == nil {
			return 0, fmt.Errorf("read the API server's CPU time: %w", err)
		}
		return strconv.ParseFloat(string(m[1]), 64)
	}
	before, err := cpu()
	if err != nil {
		return 0, err
	}
	started := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	took := time.Since(started).Seconds()
	after, err := cpu()
	return (after - before) / took, err
}
