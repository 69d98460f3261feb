package recovery

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"kubecdc/change"
)

// Coordinator lets the recoveries of a process help each other, since an API server's restart makes all streams recover at once.
// A revision of etcd writes one key, except when a lease expires, which only Events have. So a stream's change explains its
// revision for every other stream of the same etcd, and none of them has to read it. Each stream reports the writes that it
// knows: from its recovery, from its lists, and from its watch before.
//
// Recoveries that overlap are a round. Its streams end their gaps at one revision, so each revision is read by one stream at
// most. None reads sizes while another one lists or walks its changed objects, since each change found saves a read of every
// other stream. Then the resources that no stream exports are listed (witnesses.go), and the streams of one resource date their
// deletions (whole.go). Then the streams read sizes, one after another, the busiest first. The quiet ones come last, when nearly
// all revisions are explained.
//
// All objects of one resource are in one etcd. Other resources may be in another etcd (--etcd-servers-overrides). Aggregated
// servers have their own stores, with other revisions in the same range of numbers. So streams of several resources help each
// other only if the API server stores both resources itself and has one etcd (apiclient.EtcdOverrides). With two etcds, two
// resources help each other if both are outside of the etcd of Events.
type Coordinator struct {
	mu           sync.Mutex
	participants map[change.StreamID]*Participant
	resources    map[string]*resource // by id
	exported     int                  // resources that streams of the process export
	leased       int                  // exported resources whose objects expire
	etcd         *group               // the resources of one etcd, as far as is known in this round
	active       int                  // recoveries that run
	ended        int                  // recoveries of this round
	sharing      atomic.Bool          // a round runs: writes are told to the groups

	log  *slog.Logger
	line *time.Timer // writes a line to the log about the round

	witnessing  sync.Mutex // held while witnesses are asked
	testimonies map[change.StreamID]testimony
	asked       int                // witnesses, in this round
	warned      bool               // that Leases may not be listed
	wholes      map[string]*shared // by id of the resource, in this round

	asking     sync.Mutex                 // held while the API server is asked for its etcds, or for who serves what
	overrides  *int                       // how many etcds hold other resources than the default etcd, in this round, or nil
	last       *int                       // what it said last
	aggregated func(change.Resource) bool // as the API server said in this round, or nil
}

// Participant is one stream, as it takes part in the recoveries of its process. A nil *Participant shares nothing.
type Participant struct {
	coordinator *Coordinator
	resource    *resource
	witness     bool      // no stream of the process exports it (witnesses.go)
	writes      revisions // at which its objects are known to have been written

	// All below is guarded by coordinator.mu.
	stream  *change.Stream
	stage   stage
	changed int           // objects that the list shows to be changed
	before  int           // how many of its writes were known when it was listed
	from    uint64        // where its gap begins; 0: it is not known yet
	active  time.Time     // its last answer
	turn    chan struct{} // closed when it need not wait any more, or nil

	gain        float64 // how many revisions its sizes are expected to explain, by their cost
	requests    int     // that its recovery has made
	done, total int     // revisions of its gap
}

const (
	// writePages bounds the memory of a stream's writes to 32 KB. They have at least 258,000 revisions that follow each other.
	writePages = 64
	// logInterval is the time between two log lines about the progress of a round.
	logInterval = 5 * time.Second
	// fresh is the greatest age at which the end of another stream's gap is taken over. The watch goes on from there, and the API
	// server retains at least its last 75 s of events.
	fresh = 30 * time.Second
)

func NewCoordinator(log *slog.Logger) *Coordinator {
	return &Coordinator{participants: map[change.StreamID]*Participant{}, resources: map[string]*resource{}, etcd: newGroup(),
		testimonies: map[change.StreamID]testimony{}, wholes: map[string]*shared{}, log: log}
}

// Join returns the stream's participant, which keeps its writes over all sessions of the process. leased says that objects of the
// stream expire, several at one revision.
func (c *Coordinator) Join(s *change.Stream, leased bool) *Participant {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.join(s, leased)
	p.witness = false
	if r := p.resource; !r.exported {
		r.exported = true
		c.exported++
		if leased {
			c.leased++
		}
	}
	return p
}

// joinWitness returns the participant of a resource that no stream exports.
func (c *Coordinator) joinWitness(s *change.Stream, leased bool) *Participant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.join(s, leased)
}

func (c *Coordinator) join(s *change.Stream, leased bool) *Participant {
	p := c.participants[s.ID()]
	if p == nil {
		r := c.resourceOf(s, leased)
		p = &Participant{coordinator: c, resource: r, writes: revisions{limit: writePages}, witness: true}
		c.participants[s.ID()] = p
		r.spaces[s.Namespace] = append(r.spaces[s.Namespace], p)
	}
	p.stream = s
	return p
}

// Forget drops all known writes. It must be called after the server's history went back, since revisions are then used again.
func (c *Coordinator) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.participants {
		p.writes.clear()
	}
	for _, r := range c.resources {
		r.forget()
	}
	c.etcd.forget()
	c.wholes = map[string]*shared{}
}

// Overrides returns how many etcds the API server has in addition to the default one, or -1 if that is not known. The API server
// is asked once a round.
func (c *Coordinator) Overrides(ctx context.Context, ask func(context.Context) (int, error)) (int, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	c.mu.Lock()
	known := c.overrides
	c.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	overrides, err := ask(ctx)
	if err != nil {
		return -1, err
	}
	c.mu.Lock()
	changed := c.last != nil && *c.last != overrides
	c.overrides, c.last = &overrides, &overrides
	for _, r := range c.resources {
		c.place(r)
	}
	c.mu.Unlock()
	if changed {
		c.Forget() // a resource may have moved to another etcd
	}
	return overrides, nil
}

// Aggregated returns whether an aggregated API server may store the resource. It calls ask once a round, and again after an
// error.
func (c *Coordinator) Aggregated(ctx context.Context, r change.Resource,
	ask func(context.Context) (func(change.Resource) bool, error)) (bool, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	c.mu.Lock()
	aggregated := c.aggregated
	c.mu.Unlock()
	if aggregated == nil {
		var err error
		if aggregated, err = ask(ctx); err != nil {
			return true, err
		}
		c.mu.Lock()
		c.aggregated = aggregated
		c.mu.Unlock()
	}
	return aggregated(r), nil
}

// locked calls do while it holds the coordinator's lock. It calls nothing if the participant shares nothing.
func (p *Participant) locked(do func(c *Coordinator)) {
	if p == nil {
		return
	}
	p.coordinator.mu.Lock()
	defer p.coordinator.mu.Unlock()
	do(p.coordinator)
}

// HasCompany reports whether a stream of another resource has joined.
func (p *Participant) HasCompany() (has bool) {
	p.locked(func(c *Coordinator) { has = c.exported > 1 || c.exported == 1 && !p.resource.exported })
	return has
}

// Wrote records that an object of the stream changed at the revision.
func (p *Participant) Wrote(version change.ResourceVersion) {
	if p == nil {
		return
	}
	if revision, err := version.Revision(); err == nil {
		p.wrote(revision)
	}
}

func (p *Participant) wrote(revision uint64) {
	p.writes.add(revision)
	if p.coordinator.sharing.Load() { // otherwise the next round reads p.writes
		p.locked(func(*Coordinator) { p.resource.tell(p, revision) })
	}
}

// Begin begins a recovery, which End ends.
func (p *Participant) Begin() {
	p.locked(func(c *Coordinator) {
		if c.active++; c.active == 1 {
			c.beginRound()
		}
		p.requests, p.done, p.total, p.from, p.gain = 0, 0, 0, 0, 0
		p.enter(walking)
	})
}

// beginRound forgets what was found in the last round, and collects the writes that are known.
func (c *Coordinator) beginRound() {
	c.asked, c.ended = 0, 0
	c.overrides, c.aggregated, c.wholes = nil, nil, map[string]*shared{}
	maps.DeleteFunc(c.testimonies, func(_ change.StreamID, t testimony) bool { return time.Since(t.refused) > refusalHolds })
	c.etcd = newGroup()
	c.sharing.Store(true)
	for _, r := range c.resources {
		r.beginRound()
	}
	c.line = time.AfterFunc(logInterval, c.tellProgress)
}

// End ends the recovery that has begun.
func (p *Participant) End() {
	p.locked(func(c *Coordinator) {
		if c.ended++; p.isQuiet() {
			p.resource.group.quietEnded++
		}
		p.enter(idle)
		if c.active--; c.active > 0 {
			return
		}
		c.line.Stop()
		c.sharing.Store(false)
		for _, r := range c.resources {
			r.forget()
		}
	})
}

// SetStore says whether kube-apiserver itself keeps the stream's resource, and certainly in another etcd than Events.
func (p *Participant) SetStore(local, otherEtcd bool) {
	p.locked(func(c *Coordinator) {
		p.resource.local, p.resource.otherEtcd = local, otherEtcd
		c.place(p.resource)
	})
}

// CommonEnd returns the revision at which another stream of the round has listed, or 0 if this stream can't end its gap there
// too.
func (p *Participant) CommonEnd(from change.ResourceVersion) (until uint64) {
	first, err := from.Revision()
	p.locked(func(*Coordinator) {
		if g := p.resource.group; err == nil && g.until > first && time.Since(g.listed) < fresh {
			until = g.until
		}
	})
	return until
}

// Failed records a failed request of the stream. No other stream waits for this one until its next answer.
func (p *Participant) Failed() {
	p.locked(func(*Coordinator) {
		p.active = time.Time{}
		p.resource.group.wake()
	})
}

// Answered records that the API server answers the stream's requests.
func (p *Participant) Answered() {
	p.locked(func(*Coordinator) { p.active = time.Now() })
}

// Listed records the end of the stream's gap and how many objects the list shows to be changed.
func (p *Participant) Listed(until uint64, changed int) {
	p.locked(func(*Coordinator) {
		if g := p.resource.group; until > g.until {
			g.until, g.listed = until, time.Now()
		}
		p.move(func() { p.changed, p.before = changed, p.writes.len() })
	})
}

// Progress records how many of the gap's revisions are accounted for, and by how many requests.
func (p *Participant) Progress(done, total, requests int) {
	p.locked(func(*Coordinator) { p.done, p.total, p.requests = done, total, requests })
}

// tellProgress writes a line about the round to the log: its recoveries, and the first one that others wait for.
func (c *Coordinator) tellProgress() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first *Participant
	requests := 0
	for _, p := range c.participants {
		if p.stage == idle {
			continue
		}
		requests += p.requests
		if first == nil || time.Since(p.active) < stuck && p.goesBefore(first) {
			first = p
		}
	}
	if first != nil {
		c.log.Info("recovering gaps", "streams", c.active, "ended", c.ended, "requests", requests,
			"stream", first.stream.ID(), "revisions", first.done, "of", first.total)
		c.line.Reset(logInterval)
	}
}

// Gains records how many revisions the sizes of the collection are expected to explain, by their cost.
func (p *Participant) Gains(gain float64) {
	p.locked(func(*Coordinator) { p.move(func() { p.gain = gain }) })
}

// waiting returns how many other recoveries gain from what this one reads. They have not read sizes yet, or still read them.
func (p *Participant) waiting() (n int) {
	p.locked(func(*Coordinator) {
		n = len(p.resource.group.line)
		for _, q := range p.overlapping() {
			if q.stage != idle {
				n--
			}
		}
	})
	return n
}

// allNamespaces returns the resource in all namespaces. It returns nil if the stream itself has all of them.
func (p *Participant) allNamespaces() (w *shared) {
	p.locked(func(c *Coordinator) {
		if p.stream.Namespace == "" {
			return
		}
		if w = c.wholes[p.resource.id]; w == nil {
			w = &shared{sizes: map[uint64]*sizeRead{}, listed: map[uint64]bool{}}
			c.wholes[p.resource.id] = w
		}
	})
	return w
}

// sharers returns how many other recoveries of the resource have yet to read sizes, or still do.
func (p *Participant) sharers() (n int) {
	p.locked(func(*Coordinator) {
		n = p.resource.running
		for _, q := range p.resource.spaces[p.stream.Namespace] {
			if q.stage != idle {
				n--
			}
		}
	})
	return n
}

// sibling returns the participant of the resource in another namespace, whether a stream exports that or not.
func (p *Participant) sibling(namespace string) (q *Participant) {
	p.locked(func(c *Coordinator) {
		q = c.join(change.NewStream(p.stream.Resource, namespace, "", ""), p.resource.leased)
	})
	return q
}

// mayAsk reports whether no stream exports the witness, and it was not asked for these revisions in this round.
func (p *Participant) mayAsk(witness *change.Stream, leased bool, from uint64) (may bool) {
	p.locked(func(c *Coordinator) {
		r, known := c.resources[string(witness.ID())] // it is of all namespaces
		t, asked := c.testimonies[witness.ID()]
		may = !(known && r.exported) && !(leased && c.leased > 0) && (!asked || t.refused.IsZero() && from < t.from)
	})
	return may
}

// sharedFrom returns where the gaps of at least two recoveries of the round have begun: this one's, and those that use the same
// changes. Older revisions would help one recovery only.
func (p *Participant) sharedFrom() (second uint64) {
	p.locked(func(*Coordinator) {
		first := p.from
		second = first
		alone := true
		for _, q := range p.resource.group.line {
			if q.witness || q.from == 0 || !p.inOneEtcd(q) {
				continue
			}
			if alone || q.from < second {
				second = max(first, q.from)
			}
			first, alone = min(first, q.from), false
		}
	})
	return second
}

// recordAsked is called while witnesses are asked.
func (p *Participant) recordAsked(witness *change.Stream, from uint64, refused bool) {
	p.locked(func(c *Coordinator) {
		t := testimony{from: from}
		if refused {
			t.refused = time.Now()
		}
		c.testimonies[witness.ID()] = t
		c.asked++
	})
}
