package ownership

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
)

const fleetLease = 10 * time.Second

// fleet is a set of replicas that share slots by leases in memory. Each can be cut off from a server.
type fleet struct {
	slots  int
	server string // from which replicas are cut off

	mu     sync.Mutex
	live   map[string]time.Time // expiry of the heartbeat
	owners map[int]string       // leases do not expire while their owner runs
	cut    map[string]bool
	talks  map[string]bool // a watch of the replica is alive
	spools map[string]int  // the slot that a replica keeps; nil: none can
	moves  int
}

func newFleet(slots int, server string) *fleet {
	return &fleet{slots: slots, server: server, talks: map[string]bool{}, live: map[string]time.Time{}, owners: map[int]string{}, cut: map[string]bool{}}
}

func (f *fleet) Heartbeat(_ context.Context, owner string, ttl time.Duration) (checkpoint.Replicas, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live[owner] = time.Now().Add(ttl)
	r := checkpoint.Replicas{Members: []string{owner}, Slots: maps.Clone(f.owners)}
	for other, until := range f.live {
		if other != owner && time.Now().Before(until) {
			r.Members = append(r.Members, other)
		}
	}
	slices.Sort(r.Members)
	return r, nil
}

func (f *fleet) Leave(context.Context, string) error { return nil }

// start runs a replica until the test ends, or kill is called.
func (f *fleet) start(t *testing.T, name string) (kill func()) {
	ctx, kill := context.WithCancel(t.Context())
	log := slog.New(slog.DiscardHandler)
	watchdog := dependency.NewWatchdog(quiet{}, log)
	sink, source := NewReachability(fleetLease, dependency.Sink, watchdog), NewReachability(fleetLease, dependency.APIServer, watchdog)
	go sink.Probe(ctx, &fleetServer{f, dependency.Sink, name})
	go source.Probe(ctx, &fleetTalker{fleetServer{f, dependency.APIServer, name}})
	var keeps func(int) bool
	if f.spools != nil {
		keeps = func(slot int) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			spooled, keeps := f.spools[name]
			return keeps && spooled == slot
		}
	}
	go Replica{Keeps: keeps, Name: name, Slots: f.slots, Lease: fleetLease, Leases: f, Sink: sink, APIServer: source,
		Watchdog: watchdog, Observer: quiet{}, Logger: log,
		Work: func(ctx context.Context, slot int) error { return f.work(ctx, name, slot) }}.Run(ctx)
	return kill
}

func (f *fleet) work(ctx context.Context, name string, slot int) error {
	f.mu.Lock()
	held := f.owners[slot] != ""
	if !held {
		f.owners[slot] = name
		f.moves++
	}
	f.mu.Unlock()
	if held {
		return nil
	}
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.owners, slot)
	return nil
}

// set cuts replicas off from the server, or lets it answer them again.
func (f *fleet) set(cut bool, names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		f.cut[name] = cut
	}
}

// after waits, then checks how many slots each replica holds, and how many slots were acquired since the last call.
func (f *fleet) after(t *testing.T, wait time.Duration, moves int, want map[string]int) {
	t.Helper()
	time.Sleep(wait)
	f.mu.Lock()
	defer f.mu.Unlock()
	held := map[string]int{}
	for _, owner := range f.owners {
		held[owner]++
	}
	if !maps.Equal(held, want) || f.moves != moves {
		t.Errorf("slots are held %v after %d moves, want %v after %d", held, f.moves, want, moves)
	}
	f.moves = 0
}

// moved returns how many slots were acquired since the last call.
func (f *fleet) moved() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	moves := f.moves
	f.moves = 0
	return moves
}

// fleetServer is the sink or the API server, as one replica sees it.
type fleetServer struct {
	fleet        *fleet
	server, name string
}

// fleetTalker is an API server, which talks as long as a watch is alive.
type fleetTalker struct{ fleetServer }

func (s *fleetTalker) Heard() time.Time {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	if s.fleet.talks[s.name] {
		return time.Now()
	}
	return time.Time{}
}

// Probe hangs until its timeout if the replica is cut off.
func (s *fleetServer) Probe(ctx context.Context) error {
	s.fleet.mu.Lock()
	cut := s.fleet.cut[s.name] && s.fleet.server == s.server
	s.fleet.mu.Unlock()
	if cut {
		<-ctx.Done()
		return errors.New("no answer")
	}
	return nil
}

type quiet struct{}

func (quiet) Stalled(string, error) {}
func (quiet) ReplicaStatus(Status)  {}
func (quiet) Problem(int, error)    {}

// A slot whose changes wait on a machine is not handed over. While the sink answers nobody, only the replica on that machine claims it.
func TestASlotRemainsWhereItsChangesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(2, dependency.Sink)
		f.spools = map[string]int{}
		killA := f.start(t, "a")
		f.after(t, 2*fleetLease, 2, map[string]int{"a": 2})
		f.set(true, "a", "b")
		time.Sleep(2 * fleetLease)
		f.mu.Lock()
		f.spools["a"] = 1
		f.mu.Unlock()
		f.start(t, "b")
		f.after(t, 5*fleetLease, 0, map[string]int{"a": 2})
		killA()
		f.after(t, time.Hour, 0, map[string]int{})
		killA = f.start(t, "a")
		f.after(t, time.Hour, 2, map[string]int{"a": 2}) // it has not waited for the sink yet
		f.set(false, "a", "b")
		f.after(t, 5*fleetLease, 1, map[string]int{"a": 1, "b": 1})
		killA()
		f.after(t, 5*fleetLease, 1, map[string]int{"b": 2})
		f.mu.Lock()
		f.spools["b"] = 1
		f.mu.Unlock()
		f.start(t, "a")
		f.after(t, time.Hour, 1, map[string]int{"a": 1, "b": 1})
		f.mu.Lock()
		owner := f.owners[1]
		f.mu.Unlock()
		if owner != "b" {
			t.Errorf("slot 1 was handed over to %q", owner)
		}
	})
}

// Slots move to the replicas that the server answers, be it the sink or the API server. If it answers no replica, no slot moves.
func TestSlotsFollowTheServersAnswers(t *testing.T) {
	for name, happen := range map[string]func(t *testing.T, f *fleet){
		"one of two is cut off, and rejoins": func(t *testing.T, f *fleet) {
			f.set(true, "a")
			f.after(t, 2*fleetLease, 0, map[string]int{"a": 2, "b": 2})
			f.after(t, 2*fleetLease, 2, map[string]int{"b": 4})
			f.after(t, time.Hour, 0, map[string]int{"b": 4})
			f.set(false, "a")
			f.after(t, 5*fleetLease, 2, map[string]int{"a": 2, "b": 2})
		},
		"all are cut off": func(t *testing.T, f *fleet) {
			f.set(true, "a", "b")
			f.after(t, time.Hour, 0, map[string]int{"a": 2, "b": 2})
			f.set(false, "a")
			time.Sleep(fleetLease)
			f.set(false, "b")
			f.after(t, time.Hour, 0, map[string]int{"a": 2, "b": 2})
		},
		"all are cut off, then one rejoins": func(t *testing.T, f *fleet) {
			f.set(true, "a", "b")
			f.after(t, time.Hour, 0, map[string]int{"a": 2, "b": 2})
			f.set(false, "b")
			f.after(t, 5*fleetLease, 2, map[string]int{"b": 4})
		},
		"the only one that is not cut off is killed": func(t *testing.T, f *fleet) {
			kill := f.start(t, "c")
			f.after(t, 5*fleetLease, 1, map[string]int{"a": 2, "b": 1, "c": 1})
			f.set(true, "a", "b")
			f.after(t, 5*fleetLease, 3, map[string]int{"c": 4})
			kill()
			time.Sleep(3 * fleetLease)
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.owners) != 4 || slices.Contains(slices.Collect(maps.Values(f.owners)), "c") {
				t.Errorf("slots are held %v", f.owners)
			}
		},
		"an unstable network": func(t *testing.T, f *fleet) {
			for range 30 {
				f.set(true, "a")
				time.Sleep(4 * fleetLease)
				f.set(false, "a")
				time.Sleep(5 * fleetLease / 2) // clearly more than the second probation, and less than the third
			}
			if moves := f.moved(); moves > 12 {
				t.Errorf("in half an hour slots changed hands %d times", moves)
			}
			time.Sleep(5 * fleetLease)
			f.moved()
			f.after(t, time.Minute, 0, map[string]int{"a": 2, "b": 2})
		},
	} {
		for _, server := range []string{dependency.Sink, dependency.APIServer} {
			t.Run(server+"/"+name, func(t *testing.T) { inFleet(t, server, happen) })
		}
	}
}

// inFleet starts two replicas with two slots each, on a fake clock.
func inFleet(t *testing.T, server string, happen func(t *testing.T, f *fleet)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(4, server)
		f.start(t, "a")
		f.start(t, "b")
		time.Sleep(5 * fleetLease)
		f.moved()
		happen(t, f)
	})
}

// While a watch delivers, unanswered probes move nothing. When it ends, the replica is isolated.
func TestAWatchThatIsAliveKeepsItsSlots(t *testing.T) {
	inFleet(t, dependency.APIServer, func(t *testing.T, f *fleet) {
		f.talks["a"] = true
		f.set(true, "a")
		f.after(t, time.Hour, 0, map[string]int{"a": 2, "b": 2})
		f.mu.Lock()
		f.talks["a"] = false
		f.mu.Unlock()
		f.after(t, 5*fleetLease, 2, map[string]int{"b": 4})
	})
}
