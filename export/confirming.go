package export

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/internal/wait"
)

const (
	// confirmEvery is how often the API server is asked for a sign of life over the connection of the watches.
	confirmEvery = 4 * time.Second
	// confirmedFor is after which time without one it is not known what happened meanwhile.
	confirmedFor = 6 * time.Second
	// listedFor is how long the streams of a record may be those of the one before: records expire.
	listedFor = time.Hour
	// aMoment is how long a stream that handles an event may take until it waits again.
	aMoment = 5 * time.Millisecond
)

// confirming says in the log up to when streams are complete while they are quiet. A bookmark, which comes once a minute, tells that too late
// for questions about the last minute.
type confirming struct {
	queue       *batching.Queue
	every       time.Duration // a record
	busy        atomic.Bool
	since, last time.Time // of the confirmations that no record has yet
	of          []change.StreamID
	listed      time.Time // when the streams were in a record; zero: they were not
	written     time.Time
}

// confirm asks the API server, if it is not being asked.
func (st *streams) confirm(ctx context.Context) {
	c, watched := &st.confirming, map[change.StreamID]*beingRead{}
	if c.busy.Swap(true) {
		return
	}
	for id := range st.all {
		if r := st.reading(id); r != nil {
			watched[id] = r
		}
	}
	st.wg.Go(func() {
		defer c.busy.Store(false)
		connection, at := st.slot.parts.Server.Client().Confirm(ctx)
		if connection == nil {
			return
		}
		waits := func(r *beingRead) bool { return r.WaitsOn(connection) }
		if err := c.note(ctx, whichever(ctx, watched, waits), at); err != nil && ctx.Err() == nil {
			st.fail(err)
		}
	})
}

// whichever returns the streams that wait for an event, or do so in a moment.
func whichever(ctx context.Context, all map[change.StreamID]*beingRead, waits func(*beingRead) bool) (of []change.StreamID) {
	for range 3 {
		for id, r := range all {
			if waits(r) {
				of = append(of, id)
				delete(all, id)
			}
		}
		if len(all) == 0 || wait.For(ctx, aMoment) != nil {
			break
		}
	}
	slices.Sort(of)
	return of
}

// note takes the streams that were complete at a time. More than before are only told of now and then, since a record then names all.
func (c *confirming) note(ctx context.Context, of []change.StreamID, at time.Time) error {
	lacks := func(id change.StreamID) bool { _, has := slices.BinarySearch(of, id); return !has }
	others := slices.ContainsFunc(c.of, lacks) || len(of) > len(c.of) && at.Sub(c.listed) > time.Minute
	if others || at.Sub(c.last) > confirmedFor {
		if err := c.write(ctx); err != nil {
			return err
		}
		c.since = at
		if others {
			c.of, c.listed = of, time.Time{}
		}
	}
	c.last = at
	if at.Sub(c.written) < c.every {
		return nil
	}
	return c.write(ctx)
}

// write writes what no record has yet.
func (c *confirming) write(ctx context.Context) error {
	if len(c.of) == 0 || !c.last.After(c.written) {
		return nil
	}
	record := change.CurrentControl(nil, c.since, c.last)
	if c.last.Sub(c.listed) > listedFor {
		record.Streams, c.listed = c.of, c.last
	}
	c.since, c.written = c.last, c.last
	return c.queue.Send(ctx, change.Item{Time: c.last, Control: &record})
}
