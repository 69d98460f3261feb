package session

import (
	"errors"
	"reflect"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/inventory"
	"kubecdc/export/plan"
	"kubecdc/export/spooling"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/spool"
	"kubecdc/source/discovery"
)

// outcome is what follows the end of a session.
type outcome string

const (
	drained   outcome = "drained"     // the process ends, and all that was read is durable
	stopped   outcome = "stopped"     // the process ends, and the next start finds the rest
	handOver  outcome = "hand over"   // the slot is left to another replica
	fenced    outcome = "fenced"      // another process has taken the slot over
	final     outcome = "final"       // the process ends: another attempt is pointless
	atOnce    outcome = "at once"     // the next session begins at once, if this one has learned something
	spoolNext outcome = "spool"       // the next session begins at once, with a spool
	retry     outcome = "after delay" // the next session begins after a delay
)

// end is how a kind of error ends a session.
type end struct {
	errs    []errorKind
	next    outcome
	verdict bool   // the sink does not take the batch, whenever it is asked again
	what    string // what has happened
	then    string // what the next session does, and a person sees
}

// errorKind is a type of errors, or a single one.
type errorKind struct {
	name    string
	matches func(error) bool
}

func typed[E error]() errorKind {
	kind := reflect.TypeFor[E]()
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	return errorKind{kind.String(), fault.Is[E]}
}

func single(name string, err error) errorKind {
	return errorKind{name, func(e error) bool { return errors.Is(e, err) }}
}

// ends are all kinds of errors that end a session in a way of their own. The first row that fits decides. Any other error of the
// sink leads to a spool, if a batch's outcome is in doubt. Any other error at all leads to a session after a delay. The tests
// compare them with the table in docs/design.md, and demand a row for each kind of error that a session may meet.
var ends = []end{
	{[]errorKind{single("checkpoint.ErrFenced", checkpoint.ErrFenced)}, fenced, false,
		"another process has taken over the slot", "the replica asks anew which slots are its own"},
	{[]errorKind{typed[*sinks.OtherClusterError](), typed[*sinks.MovedError](), typed[*checkpoint.OtherLogError](),
		typed[*plan.OverlapError](),
		single("session.ErrCompetingCheckpoint", ErrCompetingCheckpoint)}, final, true,
		"the log is of another cluster, or of another exporter", "the process ends, and says which setting is wrong"},
	{[]errorKind{typed[*discovery.OtherClusterError]()}, final, false, "the API server is of another cluster",
		"the process ends"},
	{[]errorKind{typed[*sinks.OtherEncodingError](), typed[*change.NewerVersionError]()}, final, true,
		"the log has another form", "the process ends, and says which setting or release the log needs"},
	{[]errorKind{single("fault.ErrGone", fault.ErrGone), single("sqlitefile.ErrMoved", sqlitefile.ErrMoved)}, final, true,
		"the checkpoint's tables or its file are gone", "the process ends, and the next start makes them anew"},
	{[]errorKind{typed[*checkpoint.HeldError](), typed[*checkpoint.LayoutError]()}, handOver, false,
		"another replica has the slot, or the number of slots changes", "the balancer decides on the slot"},
	{[]errorKind{typed[*sinks.RefusedError]()}, atOnce, true,
		"the sink refuses the records of a resource", "it leaves the resource's streams out, and asks again from time to time"},
	{[]errorKind{typed[*inventory.UnreadError]()}, atOnce, false,
		"the log may have objects of a stream that begins", "it reads them back first"},
	{[]errorKind{single("spooling.ErrForwarded", spooling.ErrForwarded),
		single("spooling.ErrSinkAnswers", spooling.ErrSinkAnswers)}, atOnce, false,
		"the sink answers again, or has all of the spool", "it forwards what is left, and then writes to the sink"},
	{[]errorKind{single("sinks.ErrInvalidWriter", sinks.ErrInvalidWriter), typed[*sinks.NewerEpochError]()}, retry, true,
		"the sink has fenced the writer, and the checkpoint knows no other owner", "it opens the log with a higher epoch"},
	{[]errorKind{typed[*sinks.LostTailError](), typed[*sinks.Hole]()}, retry, true,
		"the log lacks records", "it writes gap records, and compares the log with the API server"},
	{[]errorKind{single("checkpoint.ErrBehind", checkpoint.ErrBehind)}, retry, false,
		"the checkpoint has forgotten its last batches", "it reads them back from the log"},
	{[]errorKind{single("checkpoint.ErrDamaged", checkpoint.ErrDamaged)}, retry, false,
		"the checkpoint is damaged", "it rebuilds the checkpoint from the log"},
	{[]errorKind{single("spool.ErrUnusable", spool.ErrUnusable)}, retry, false,
		"the spool is not what follows the log", "the spool is put aside, and the slot goes on from what the sink has"},
}

// These are the other ends.
const (
	sinkTakesNoBatch = "the sink has not taken a batch, for no reason of this table"
	anyOther         = "any other error, of the checkpoint, the API server or the sink"
)

// endOf returns the row for an error, or an empty one.
func endOf(err error) end {
	for _, row := range ends {
		if slices.ContainsFunc(row.errs, func(kind errorKind) bool { return kind.matches(err) }) {
			return row
		}
	}
	return end{}
}

// outcomeOf returns what follows a session that an error has ended, and why. ending says that the process ends, or gives up the
// slot.
func outcomeOf(err error, s sinkState, ending bool) (outcome, string) {
	row := endOf(err)
	switch {
	case row.next == fenced, row.next == final, row.next == handOver:
		return row.next, row.what
	case ending && err == nil:
		return drained, ""
	case ending:
		return stopped, ""
	case row.next != "":
		return row.next, row.what
	case mayBeAway(err) && inDoubt(s):
		return spoolNext, sinkTakesNoBatch
	}
	return retry, anyOther
}

// isFinal reports that this process must not write to the log, or that the checkpoint must be opened again.
func isFinal(err error) bool { return endOf(err).next == final }

// isFenced reports whether another process has taken over the slot. Only the checkpoint knows that, by its epoch.
func isFenced(err error) bool { return errors.Is(err, checkpoint.ErrFenced) }

// isUnavailable reports that another replica has the slot, or that the layout has changed.
func isUnavailable(err error) bool { return endOf(err).next == handOver }

// isVerdict reports that the sink does not take a batch, whenever it is asked again.
func isVerdict(err error) bool { return endOf(err).verdict }

// mayBeAway reports whether the sink may take the batch later, from any owner of the slot.
func mayBeAway(err error) bool { return dependency.NameOf(err) == dependency.Sink && !isVerdict(err) }
