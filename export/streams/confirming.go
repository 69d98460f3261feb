package streams

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/internal/wait"
	"kubecdc/source/reflector"
)

const (
	// confirmEvery is how often a sign of life over the connection of the watches is needed. The API server is asked for a sign
	// of life if it has answered no other request since the last one. That is checked every confirmTick.
	confirmEvery, confirmTick = 4 * time.Second, time.Second
	// confirmedFor is how long a stream counts as complete after a sign of life. Without another sign of life in that time,
	// changes may be missing.
	confirmedFor = 6 * time.Second
	// listedFor limits how long a record may refer to the streams of an earlier one instead of listing them, since records
	// expire.
	listedFor = time.Hour
	// aMoment is how long a stream that handles an event may take until it waits again.
	aMoment = 5 * time.Millisecond
)

// confirming writes to the log up to which time streams are complete while nothing changes in them. The API server's bookmarks,
// which come once a minute, would say so too late for questions about the last minute.
type confirming struct {
	queue       *batching.Queue
	every       time.Duration // the interval between two records
	busy        atomic.Bool
	connection  *reflector.Connection // over which the API server has answered last, or nil
	asked       time.Time             // when it was last asked
	since, last time.Time             // the time range of the confirmations that no record has yet
	streams     []change.StreamID
	listed      time.Time // the last record that listed the streams, or zero
	written     time.Time
}

// confirm waits for a sign of life, if one is due and nobody waits for it.
func (st *Streams) confirm(ctx context.Context) {
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
		moment := c.sign(ctx, st.slot.Parts.Server.Client())
		if moment.IsZero() {
			return
		}
		waits := func(r *beingRead) bool { return r.WaitsOn(c.connection, moment) }
		if err := c.add(ctx, whichever(ctx, watched, waits), moment); err != nil && ctx.Err() == nil {
			st.fail(err)
		}
	})
}

// confirmer is the API server, in the words of apiclient.Client.
type confirmer interface {
	Answered(over *reflector.Connection) time.Time
	Confirm(ctx context.Context) (over *reflector.Connection, asked time.Time)
}

// sign returns when a request was made whose answer is a sign of life, or zero if none is due or came.
func (c *confirming) sign(ctx context.Context, api confirmer) time.Time {
	if time.Since(c.last) < confirmEvery {
		return time.Time{}
	}
	if moment := api.Answered(c.connection); moment.After(c.last) {
		return moment
	}
	if time.Since(c.asked) < confirmEvery {
		return time.Time{}
	}
	if c.connection, c.asked = api.Confirm(ctx); c.connection == nil {
		return time.Time{}
	}
	return c.asked
}

// whichever returns the streams that wait for an event, at once or within a few moments.
func whichever(ctx context.Context, all map[change.StreamID]*beingRead, waits func(*beingRead) bool) (waiting []change.StreamID) {
	for range 3 {
		for id, r := range all {
			if waits(r) {
				waiting = append(waiting, id)
				delete(all, id)
			}
		}
		if len(all) == 0 || wait.For(ctx, aMoment) != nil {
			break
		}
	}
	slices.Sort(waiting)
	return waiting
}

// add adds that streams were complete at a time. If streams were added only, it writes a record that lists all of them at most
// once a minute.
func (c *confirming) add(ctx context.Context, streams []change.StreamID, moment time.Time) error {
	lacks := func(id change.StreamID) bool { _, has := slices.BinarySearch(streams, id); return !has }
	others := slices.ContainsFunc(c.streams, lacks) || len(streams) > len(c.streams) && moment.Sub(c.listed) > time.Minute
	if others || moment.Sub(c.last) > confirmedFor {
		if err := c.write(ctx); err != nil {
			return err
		}
		c.since = moment
		if others {
			c.streams, c.listed = streams, time.Time{}
		}
	}
	c.last = moment
	if moment.Sub(c.written) < c.every {
		return nil
	}
	return c.write(ctx)
}

// write writes a record of what is confirmed and in no record yet.
func (c *confirming) write(ctx context.Context) error {
	if len(c.streams) == 0 || !c.last.After(c.written) {
		return nil
	}
	record := change.CurrentControl(nil, c.since, c.last)
	if c.last.Sub(c.listed) > listedFor {
		record.Streams, c.listed = c.streams, c.last
	}
	c.since, c.written = c.last, c.last
	return c.queue.Send(ctx, change.Item{Time: c.last, Control: &record})
}
