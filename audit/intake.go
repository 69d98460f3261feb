package audit

import (
	"context"
	"errors"
	"sync"
	"time"

	"kubecdc/internal/failpoint"
)

// Log keeps records: sinks.AuditLog.
type Log interface {
	WriteAudit(ctx context.Context, records []Record) error
}

// Intake passes the records of events on to a log. It is safe for concurrent use. A source brings events again until they are
// durable, and the log stores each event once.
type Intake struct {
	Count func(Tally) // takes the numbers of parsed events

	mu     sync.Mutex
	parser Parser
	log    Log // nil: it is not open
}

// NewIntake returns an intake that is not open yet. It calls count after each write with the tally of the events since the last
// call. count may be nil.
func NewIntake(p Parser, count func(Tally)) *Intake { return &Intake{Count: count, parser: p} }

// ErrNotOpen says that nothing can be written now.
var ErrNotOpen = errors.New("the log is not open yet")

// Open sets the log to write to, and how values are hidden (Parser.Hide). Before Open, and after closed is called, events are
// refused with ErrNotOpen.
func (i *Intake) Open(log Log, hide func(Kind, string) string) (closed func()) {
	set := func(log Log) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.log, i.parser.Hide = log, hide
	}
	set(log)
	return func() { set(nil) }
}

// atOnce is how many records are held before they are written.
const atOnce = 500

// batch gathers the records of events that came together.
type batch struct {
	*Intake
	ctx     context.Context
	parser  Parser
	log     Log
	records []Record
	tally   Tally
}

// begin returns ErrNotOpen without a log.
func (i *Intake) begin(ctx context.Context) (*batch, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.log == nil {
		return nil, ErrNotOpen
	}
	return &batch{Intake: i, ctx: ctx, parser: i.parser, log: i.log}, nil
}

// add takes a line, and writes what has gathered if it is enough.
func (b *batch) add(line []byte) error {
	b.tally.add(b.parser.Parse(line, time.Now().UTC().Truncate(time.Microsecond),
		func(r Record) { b.records = append(b.records, r) }))
	if len(b.records) < atOnce {
		return nil
	}
	return b.write()
}

func (b *batch) write() error {
	if len(b.records) > 0 {
		if err := b.log.WriteAudit(b.ctx, b.records); err != nil {
			return err
		}
		failpoint.Hit(failpoint.AuditWritten)
		b.records = b.records[:0]
	}
	if b.Count != nil {
		b.Count(b.tally)
	}
	b.tally = Tally{}
	return nil
}
