package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
	"kubecdc/source/recovery"
)

// coordinated measures the recoveries of many streams at once, as after an API server's restart. There is no server. One stream
// missed updates, and the others missed nothing. No resource explains the last revisions of the gap.
func coordinated(streams int) func(context.Context, *bench) ([]result, error) {
	return func(ctx context.Context, b *bench) ([]result, error) {
		streams := b.scaled(streams)
		cpu, started := ownCPU(), time.Now()
		requests, err := recoverMany(ctx, streams)
		return []result{{name: b.row, events: streams, unit: "stream", cpu: ownCPU() - cpu, wall: time.Since(started),
			remark: fmt.Sprintf("%.1f requests a stream", float64(requests)/float64(streams))}}, err
	}
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The gap has an update at each revision, and then some that nobody explains.
const gapFrom, gapUpdates, gapOthers = 1000, 40, 6

const gapTo = gapFrom + gapUpdates + gapOthers

func recoverMany(ctx context.Context, streams int) (requests int64, err error) {
	c := recovery.NewCoordinator(slog.New(slog.DiscardHandler))
	group, ctx := errgroup.WithContext(ctx)
	var begun sync.WaitGroup
	begun.Add(streams)
	all, served := make([]*updated, streams), make([]*change.Stream, streams)
	for i := range streams {
		served[i] = change.NewStream(change.Resource{Version: "v1", Plural: fmt.Sprint("resource", i)}, "", "", "")
	}
	witnesses := func(mayAsk func(*change.Stream, bool) bool) (some []recovery.Witness) {
		for _, s := range served {
			if mayAsk(s, false) {
				some = append(some, recovery.Witness{Stream: s})
			}
		}
		return some
	}
	for i := range streams {
		group.Go(func() error {
			p := c.Join(served[i], false)
			begun.Done()
			begun.Wait()
			p.Begin()
			defer p.End()
			if _, err := c.Overrides(ctx, func(context.Context) (int, error) { return 0, nil }); err != nil {
				return err
			}
			p.SetStore(true, false)
			all[i] = &updated{}
			gap := recovery.Gap{From: gapFrom, To: gapTo, Parallel: 8, Participant: p,
				ListedIn: map[string]int64{}, Witnesses: witnesses}
			if i == 0 {
				all[i].objects = gapUpdates
			}
			log := all[i].missed(&gap)
			p.Listed(gapTo, len(gap.Changed))
			plan, incomplete, err := recovery.Recover(ctx, all[i], log, gap)
			if err == nil && (incomplete != "" || len(plan) != all[i].objects) {
				err = errors.New("a recovery found something else than was written: " + incomplete)
			}
			return err
		})
	}
	err = group.Wait()
	for _, h := range all {
		requests += h.requests.Load()
	}
	return requests, err
}

// updated is a collection whose objects were updated once in the gap, one after another. Other resources wrote the last
// revisions.
type updated struct {
	objects  int
	requests atomic.Int64
}

func (u *updated) object(i int, revision uint64) apiclient.Object {
	version := uint64(gapFrom - gapUpdates + i)
	if written := uint64(gapFrom + 1 + i); revision >= written {
		version = written
	}
	name := fmt.Sprintf("object-%02d", i)
	return apiclient.Object{Name: name, UID: name, Version: change.VersionOf(version)}
}

func (u *updated) missed(gap *recovery.Gap) *known.Set {
	log := known.New()
	for i := range u.objects {
		before := u.object(i, gapFrom)
		log.Put(before.Key(), before.UID, before.Version)
		gap.Changed = append(gap.Changed, u.object(i, gapTo))
	}
	gap.Listed = int64(u.objects)
	return log
}

func (u *updated) Size(context.Context, uint64) (int64, error) {
	u.requests.Add(1)
	return int64(u.objects), nil
}

func (u *updated) Object(_ context.Context, key string, revision uint64) (o apiclient.Object, exists bool, err error) {
	u.requests.Add(1)
	var i int
	_, err = fmt.Sscanf(key, "object-%d", &i)
	return u.object(i, revision), true, err
}

func (u *updated) Names(_ context.Context, _ string, revision uint64, visit func(apiclient.Object) error) (err error) {
	u.requests.Add(1)
	for i := 0; i < u.objects && err == nil; i++ {
		err = visit(u.object(i, revision))
	}
	return err
}

func (u *updated) Objects(ctx context.Context, namespace string, revision, _ uint64, visit func(apiclient.Object) error) error {
	return u.Names(ctx, namespace, revision, visit)
}
