package recovery

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"kubecdc/change"
)

// Coordinator lets the recoveries of a process help each other, since an API server's restart makes all streams recover at once. A
// revision of etcd writes one key, except when a lease expires, which only Events have. So a stream's change explains its revision for
// every other stream of the same etcd, and none of them has to read it. Each stream reports the writes that it knows: from its recovery,
// from its lists, and from its watch before.
//
// Recoveries that overlap are a round. Its streams end their gaps at one revision, so each revision is read by one stream at most. None
// reads sizes while another one lists or walks its changed objects, since each change found saves a read of every other stream. Then the
// resources that no stream exports are listed (witnesses.go), and the streams of one resource date their deletions (whole.go). Then the
// streams read sizes, one after another, the busiest first. The quiet ones come last, when nearly all revisions are explained.
//
// All objects of one resource are in one etcd. Other resources may be in another etcd (--etcd-servers-overrides). Aggregated servers
// have their own stores, with other revisions in the same range of numbers. So streams of several resources help each other only if the
// API server stores both resources itself and has one etcd (apiclient.EtcdOverrides). With two etcds they help each other if neither
// resource is where Events are.
type Coordinator struct {
	mu           sync.Mutex
	participants map[change.StreamID]*Participant
	active       int           // recoveries that run
	moved        chan struct{} // closed when one of them gets further

	log  *slog.Logger
	line *rate.Sometimes // limits the lines of the log

	witnessing  sync.Mutex // held while witnesses are asked
	testimonies map[change.StreamID]testimony
	asked       int                // witnesses, in this round
	wholes      map[string]*shared // by id of the resource, in this round

	asking     sync.Mutex      // held while the API server is asked for its etcds
	overrides  *int            // how many etcds hold other resources than the default one does, as the API server said in this round, or nil
	last       *int            // what it said last
	aggregated map[string]bool // by group and version, in this round
}

// Participant is one stream, as it takes part in the recoveries of its process. A nil *Participant shares nothing.
type Participant struct {
	coordinator *Coordinator
	stream      *change.Stream
	leased      bool      // several objects expire at one revision
	witness     bool      // no stream of the process exports it (witnesses.go)
	writes      revisions // at which its objects are known to have been written

	// All below is guarded by coordinator.mu.
	local     bool // kube-apiserver itself keeps the resource, as far as is known
	otherEtcd bool // in another etcd than Events, as was found in this round
	stage     stage
	changed   int       // objects that the list shows to be changed
	before    int       // how many of its writes were known when it was listed
	from      uint64    // where its gap begins; 0: it is not known yet
	until     uint64    // the end of its gap, in this round
	listed    time.Time // when it was listed
	active    time.Time // its last answer

	gain     float64 // how many revisions its sizes are expected to explain, by their cost
	requests int     // that its recovery has made
}

type stage int

const (
	idle      stage = iota
	walking         // it lists, or walks its changed objects
	deferring       // past lists show most of its changes: it walks when the others have walked, or later
	dating          // it lets others explain revisions, and dates deletions
	sizing          // it reads sizes, and what they lead to
	late            // it walks when the others have ended
)

const (
	// writePages bounds the memory of a stream's writes to 32 KB. They have at least 258,000 revisions that follow each other.
	writePages = 64
	// stuck is the time without an answer after which a recovery is not waited for.
	stuck = time.Minute
	// logInterval is the time between two log lines about the progress of a round.
	logInterval = 5 * time.Second
	// fresh is the greatest age at which the end of another stream's gap is taken over. The watch goes on from there, and the API server
	// retains at least its last 75 s of events.
	fresh = 30 * time.Second
)

func NewCoordinator(log *slog.Logger) *Coordinator {
	return &Coordinator{participants: map[change.StreamID]*Participant{},
		testimonies: map[change.StreamID]testimony{}, wholes: map[string]*shared{}, moved: make(chan struct{}), log: log,
		line: &rate.Sometimes{Interval: logInterval}}
}

// Join returns the stream's participant, which keeps its writes over all sessions of the process. leased says that objects of the
// stream expire, several at one revision.
func (c *Coordinator) Join(s *change.Stream, leased bool) *Participant {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.join(s, leased)
	p.witness = false
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
		p = &Participant{coordinator: c, writes: revisions{limit: writePages}, witness: true}
		c.participants[s.ID()] = p
	}
	p.stream, p.leased = s, leased
	return p
}

// Forget drops all known writes. It must be called after the server's history went back, since revisions are then used again.
func (c *Coordinator) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.participants {
		p.writes.clear()
		p.until = 0
	}
	c.wholes = map[string]*shared{}
}

// Overrides returns how many etcds the API server has in addition to the default one, or -1 if that is not known. The API server is
// asked once a round.
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
	c.mu.Unlock()
	if changed {
		c.Forget() // a resource may have moved to another etcd
	}
	return overrides, nil
}

// Aggregated returns whether an aggregated API server may store the resource. It calls ask once a round for each group and
// version, and again after an error.
func (c *Coordinator) Aggregated(ctx context.Context, r change.Resource, ask func(context.Context) (bool, error)) (bool, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	group := r.Group + "/" + r.Version
	c.mu.Lock()
	aggregated, known := c.aggregated[group]
	c.mu.Unlock()
	if known {
		return aggregated, nil
	}
	aggregated, err := ask(ctx)
	if err == nil {
		c.mu.Lock()
		c.aggregated[group] = aggregated
		c.mu.Unlock()
	}
	return aggregated, err
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
	p.locked(func(c *Coordinator) {
		for _, q := range c.participants {
			has = has || !q.witness && q.stream.Resource.ID() != p.stream.Resource.ID()
		}
	})
	return has
}

// Wrote records that an object of the stream changed at the revision.
func (p *Participant) Wrote(version change.ResourceVersion) {
	if p == nil {
		return
	}
	if revision, err := version.Revision(); err == nil {
		p.writes.add(revision)
	}
}

// Begin begins a recovery, which End ends.
func (p *Participant) Begin() {
	p.locked(func(c *Coordinator) {
		if c.active++; c.active == 1 {
			c.beginRound()
		}
		p.requests, p.from, p.gain = 0, 0, 0
		p.enter(walking)
	})
}

// beginRound forgets what was found in the last round.
func (c *Coordinator) beginRound() {
	c.asked = 0
	c.overrides, c.aggregated, c.wholes = nil, map[string]bool{}, map[string]*shared{}
	maps.DeleteFunc(c.testimonies, func(_ change.StreamID, t testimony) bool { return time.Since(t.refused) > refusalHolds })
	for _, q := range c.participants {
		q.until, q.otherEtcd = 0, false
	}
	c.line = &rate.Sometimes{Interval: logInterval}
	c.line.Do(func() {}) // the first line follows an interval later
}

// End ends the recovery that has begun.
func (p *Participant) End() {
	p.locked(func(c *Coordinator) {
		c.active--
		p.enter(idle)
	})
}

// SetStore says whether kube-apiserver itself keeps the stream's resource, and certainly in another etcd than Events.
func (p *Participant) SetStore(local, otherEtcd bool) {
	p.locked(func(*Coordinator) { p.local, p.otherEtcd = local, otherEtcd })
}

// CommonEnd returns the revision at which another stream of the round has listed, or 0 if this stream can't end its gap there too.
func (p *Participant) CommonEnd(from change.ResourceVersion) (until uint64) {
	first, err := from.Revision()
	p.locked(func(c *Coordinator) {
		for _, q := range c.participants {
			if err == nil && p.inOneEtcd(q) && q.until > max(first, until) && time.Since(q.listed) < fresh {
				until = q.until
			}
		}
	})
	return until
}

// Failed records that a request of the stream failed: until its next answer no other stream waits for it.
func (p *Participant) Failed() {
	p.locked(func(*Coordinator) {
		p.enter(p.stage)
		p.active = time.Time{}
	})
}

// Answered records that the API server answers the stream's requests.
func (p *Participant) Answered() {
	p.locked(func(*Coordinator) { p.active = time.Now() })
}

// Listed records the end of the stream's gap and how many objects the list shows to be changed.
func (p *Participant) Listed(until uint64, changed int) {
	p.locked(func(*Coordinator) {
		p.until, p.listed, p.changed, p.before = until, time.Now(), changed, p.writes.len()
	})
}

// Progress records how many of the gap's revisions are accounted for, and by how many requests. It logs the progress of the round from
// time to time.
func (p *Participant) Progress(done, total, requests int) {
	p.locked(func(c *Coordinator) {
		p.requests = requests
		c.line.Do(func() {
			requests := 0
			for _, q := range c.participants {
				if q.stage != idle {
					requests += q.requests
				}
			}
			c.log.Info("recovering gaps", "streams", c.active, "requests", requests,
				"stream", p.stream.ID(), "revisions", done, "of", total)
		})
	})
}

// Gains records how many revisions the sizes of the collection are expected to explain, by their cost.
func (p *Participant) Gains(gain float64) {
	p.locked(func(*Coordinator) { p.gain = gain })
}

// awaitTurn waits until no other recovery has to go first with the stage.
func (p *Participant) awaitTurn(ctx context.Context, s stage) error {
	for {
		blocked, moved := false, (chan struct{})(nil)
		p.locked(func(c *Coordinator) {
			if p.stage != s {
				p.enter(s)
			}
			p.active = time.Now() // a recovery that waits is not stuck
			moved, blocked = c.moved, p.mustWait()
		})
		if !blocked {
			return nil
		}
		select {
		case <-moved:
		case <-time.After(stuck / 2):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// enter enters a stage and wakes the recoveries that wait. Its callers hold the lock.
func (p *Participant) enter(s stage) {
	p.stage, p.active = s, time.Now()
	close(p.coordinator.moved)
	p.coordinator.moved = make(chan struct{})
}

// mustWait reports whether another recovery, whose writes the stream can use, has to go first.
func (p *Participant) mustWait() bool {
	for _, q := range p.coordinator.participants {
		if q.stage != idle && time.Since(q.active) < stuck && p.learnsFrom(q) && q.goesBefore(p) {
			return true
		}
	}
	return false
}

// goesBefore orders the recoveries by stage. Within a stage the recovery whose sizes explain most by their cost comes first. Then comes
// the recovery that changed most, by its list or before.
func (p *Participant) goesBefore(q *Participant) bool {
	switch {
	case p.stage != q.stage:
		return p.stage < q.stage
	case p.gain != q.gain:
		return p.gain > q.gain
	case p.changed != q.changed:
		return p.changed > q.changed
	case p.before != q.before:
		return p.before > q.before
	}
	return p.stream.ID() < q.stream.ID()
}

// learnsFrom reports whether a change of the other stream explains a revision for this one. Both must be in one etcd and have no object
// in common, and the revision must not have written an object of this stream too.
func (p *Participant) learnsFrom(q *Participant) bool {
	return p.inOneEtcd(q) && !(p.leased && q.leased)
}

func (p *Participant) inOneEtcd(q *Participant) bool {
	switch {
	case p == q:
		return false
	case p.stream.Resource.ID() == q.stream.Resource.ID():
		return p.stream.Namespace != "" && q.stream.Namespace != "" && p.stream.Namespace != q.stream.Namespace
	}
	overrides := p.coordinator.overrides
	return p.local && q.local && overrides != nil && (*overrides == 0 || *overrides == 1 && p.otherEtcd && q.otherEtcd)
}

// waiting returns how many other recoveries have yet to read sizes, or still do, and learn what this one learns.
func (p *Participant) waiting() (n int) {
	p.locked(func(c *Coordinator) {
		for _, q := range c.participants {
			if q.stage != idle && p.inOneEtcd(q) {
				n++
			}
		}
	})
	return n
}

// allNamespaces returns the resource in all namespaces, of which the stream has one, or nil if the stream has them all.
func (p *Participant) allNamespaces() (w *shared) {
	p.locked(func(c *Coordinator) {
		if p.stream.Namespace == "" {
			return
		}
		id := p.stream.Resource.ID()
		if w = c.wholes[id]; w == nil {
			w = &shared{sizes: map[uint64]*sizeRead{}, listed: map[uint64]bool{}}
			c.wholes[id] = w
		}
	})
	return w
}

// sharers returns how many other recoveries of the resource have yet to read sizes, or still do.
func (p *Participant) sharers() (n int) {
	p.locked(func(c *Coordinator) {
		for _, q := range c.participants {
			if q.stage != idle && q.stream.Resource.ID() == p.stream.Resource.ID() && p.inOneEtcd(q) {
				n++
			}
		}
	})
	return n
}

// sibling returns the participant of the resource in another namespace, whether a stream exports that or not.
func (p *Participant) sibling(namespace string) (q *Participant) {
	p.locked(func(c *Coordinator) {
		q = c.join(change.NewStream(p.stream.Resource, namespace, "", ""), p.leased)
		if q.witness {
			q.local, q.otherEtcd = p.local, p.otherEtcd
		}
	})
	return q
}

// mayAsk reports whether no stream exports the witness, and it was not asked for these revisions in this round.
func (p *Participant) mayAsk(w Witness, from uint64) (may bool) {
	p.locked(func(c *Coordinator) {
		t, asked := c.testimonies[w.Stream.ID()]
		may = !asked || t.refused.IsZero() && from < t.from
		for _, q := range c.participants {
			same := q.stream.Resource.ID() == w.Stream.Resource.ID() || q.leased && w.Leased
			may = may && (q.witness || !same)
		}
	})
	return may
}

// sharedFrom returns where the gaps of at least two recoveries of the round have begun: this one's, and those that use the same changes.
// Older revisions would help one recovery only.
func (p *Participant) sharedFrom() uint64 {
	var all []uint64
	p.locked(func(c *Coordinator) {
		for _, q := range c.participants {
			if q == p || q.stage != idle && !q.witness && q.from > 0 && p.inOneEtcd(q) {
				all = append(all, q.from)
			}
		}
	})
	slices.Sort(all)
	return all[min(1, len(all)-1)]
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

// addPartners adds the revisions of the page that are explained by other streams' changes.
func (p *Participant) addPartners(into *page, n uint64) {
	p.locked(func(c *Coordinator) {
		for _, q := range c.participants {
			if p.learnsFrom(q) {
				q.writes.addTo(into, n)
			}
		}
	})
}
