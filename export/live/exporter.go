// Package live has the state of a running exporter: its replica, servers, slots and streams. Each fact is stored once, by the
// part that learns it. Metrics, /readyz and the status page are functions of a Snapshot. The package decides nothing, and can't
// stop a stream or a batch.
package live

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/export/ownership"
	"kubecdc/internal/dependency"
	"kubecdc/source/reflector"
)

// Exporter is one running exporter, from before its start until its process ends. Any goroutine may call its methods, which do
// not block.
type Exporter struct {
	Count Counters         // set it before anything is reported
	Now   func() time.Time // the clock

	mu         sync.Mutex
	logger     *slog.Logger
	started    time.Time
	replica    ownership.Status // as of the last heartbeat
	checkpoint int64            // size in bytes
	waitsOn    string           // dependency that the start waits for, or empty
	problems   map[string]*Problem
	stalls     map[string]*Problem // unanswered calls, by dependency
	servers    map[string]*Server  // by dependency
	slots      map[int]*slot
	streams    map[change.StreamID]*stream
	past       []Past
	beginning  beginning
	positioned time.Time // when a stream had its first position, the last time
}

// Counters count events that have no lasting state. Their methods are quick.
type Counters interface {
	StreamKnown(stream change.StreamID) // creates the stream's counters
	Committed(c Committed)
	Checkpointed(took time.Duration)
	Gap(cause string, complete bool)
	Relisted(reason reflector.RelistReason)
	WatchRestarted()
	SessionFailed(slot int)
	Error(stage string) // an error that is retried
}

// These are the stages of errors that are not a server's.
const (
	StageSource = "source" // lists and watches
	StageCommit = "commit" // other errors that end a session
)

// New returns an exporter that expects the slots 0 to slots-1 to be held.
func New(logger *slog.Logger, slots int) *Exporter {
	e := &Exporter{Count: nobody{}, Now: time.Now, logger: logger, started: time.Now().UTC(), problems: map[string]*Problem{},
		stalls: map[string]*Problem{}, servers: map[string]*Server{}, slots: map[int]*slot{},
		streams: map[change.StreamID]*stream{}}
	for number := range slots {
		e.slots[number] = &slot{}
	}
	return e
}

// Snapshot is the state at one moment.
type Snapshot struct {
	Time, Started   time.Time
	Replica         ownership.Status
	CheckpointBytes int64
	Problems        map[string]*Problem // by component
	Stalls          map[string]*Problem // by dependency
	Servers         map[string]Server   // used servers, by dependency
	Down            map[string]bool     // dependencies that fail or do not answer, or that the start waits for
	Slots           map[int]Slot
	Streams         map[change.StreamID]Stream
	Positioned      time.Time // when a stream of a session had its first position, the last time
	Past            []Past    // the last ended problems, oldest first
}

func (e *Exporter) Snapshot() *Snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &Snapshot{Time: e.Now(), Started: e.started, Replica: e.replica, CheckpointBytes: e.checkpoint,
		Problems: maps.Clone(e.problems),
		Stalls:   maps.Clone(e.stalls), Servers: map[string]Server{}, Down: map[string]bool{}, Slots: map[int]Slot{},
		Streams: make(map[change.StreamID]Stream, len(e.streams)), Past: slices.Clone(e.past),
		Positioned: e.positioned}
	for name, server := range e.servers {
		s.Servers[name] = *server
	}
	for _, name := range dependency.All {
		s.Down[name] = e.fails(name) || e.waitsOn == name
	}
	for number, v := range e.slots {
		v.Fill = v.read()
		s.Slots[number] = v.Slot
	}
	for id, v := range e.streams {
		s.Streams[id] = v.shown(s.Time, s.Slots[v.Slot].Fill.Streams[id])
	}
	return s
}

// ReplicaStatus records who owns which slot, and why this replica is on standby, if it is.
func (e *Exporter) ReplicaStatus(s ownership.Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Owners = maps.Clone(s.Owners)
	e.replica = s
	e.forget(notAssigned, nil)
	e.used(dependency.APIServer) // otherwise the replica would not have come so far
}

// CheckpointSize records the size of the checkpoint's database.
func (e *Exporter) CheckpointSize(bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checkpoint = bytes
}

// nobody counts nothing.
type nobody struct{}

func (nobody) StreamKnown(change.StreamID)     {}
func (nobody) Committed(Committed)             {}
func (nobody) Checkpointed(time.Duration)      {}
func (nobody) Gap(string, bool)                {}
func (nobody) Relisted(reflector.RelistReason) {}
func (nobody) WatchRestarted()                 {}
func (nobody) SessionFailed(int)               {}
func (nobody) Error(string)                    {}
