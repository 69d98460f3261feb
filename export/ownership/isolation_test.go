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
	"kubecdc/export/dependency"
)

const fleetLease = 10 * time.Second

// fleet is a set of replicas that share slots by leases in memory. Each can be cut off from the sink.
type fleet struct {
	slots int

	mu     sync.Mutex
	live   map[string]time.Time // expiry of the heartbeat
	owners map[int]string       // leases do not expire while their owner runs
	cut    map[string]bool
	moves  int
}

func newFleet(slots int) *fleet {
	return &fleet{slots: slots, live: map[string]time.Time{}, owners: map[int]string{}, cut: map[string]bool{}}
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
	sink := NewReachability(fleetLease, watchdog)
	go sink.Probe(ctx, &fleetSink{fleet: f, name: name})
	go Replica{Name: name, Slots: f.slots, Lease: fleetLease, Leases: f, LeasesIn: dependency.Leases, Sink: sink,
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

// set cuts replicas off from the sink, or lets the sink answer them again.
func (f *fleet) set(cut bool, names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		f.cut[name] = cut
	}
}

// after waits, and then checks how many slots each replica holds, and how many slots were acquired since the last call.
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

type fleetSink struct {
	fleet *fleet
	name  string
}

// Probe hangs until its timeout if the replica is cut off.
func (s *fleetSink) Probe(ctx context.Context) error {
	s.fleet.mu.Lock()
	cut := s.fleet.cut[s.name]
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

// Slots move to the replicas that the sink answers, and stay where they are if it answers nobody.
func TestSlotsFollowTheSinksAnswers(t *testing.T) {
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(4)
				f.start(t, "a")
				f.start(t, "b")
				time.Sleep(5 * fleetLease)
				f.moved()
				happen(t, f)
			})
		})
	}
}
