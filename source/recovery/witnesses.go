package recovery

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// Witness is a resource that no stream of the process exports. Its writes explain revisions for exported resources in the same
// etcd. A list shows which of its objects changed in the gap, and these are walked back like a stream's. Its sizes are not read,
// since its changes need not be complete.
//
// Resources that are two names of the same objects must not explain each other. kube-apiserver has one such pair: events and
// events.events.k8s.io. Both are leased. So a leased witness is not asked if a leased stream has joined the coordinator.
type Witness struct {
	Stream  *change.Stream // the whole resource
	Leased  bool           // as Coordinator.Join
	History History        // metadata is enough; a refusal is an error at once
	// Store finds out where the resource is stored, with the results that Participant.SetStore takes.
	Store func(context.Context) (local, otherEtcd bool, err error)
}

// MostWritten is the resource that most clusters write most, so its revisions are explained first.
const MostWritten = "leases.coordination.k8s.io"

// testimony is what a witness was asked for.
type testimony struct {
	from    uint64    // it was asked for the revisions after this one, in this round
	refused time.Time // when the API server refused to list it, if it did
}

// refusalHolds is how long a witness that may not be read is not asked again.
const refusalHolds = time.Hour

// askingCosts is how many requests it takes to find out that a witness has written nothing. Witnesses get at most a quarter of
// the requests that the sizes would cost.
const askingCosts, ofSizes = 3, 4

// askWitnesses lets the witnesses explain revisions before any stream of the round reads a size at them, if that costs fewer
// requests than the sizes. A witness that can't be read explains nothing.
func (s *search) askWitnesses(ctx context.Context) error {
	if s.Witnesses == nil || s.Participant == nil {
		return nil
	}
	if err := s.Participant.awaitTurn(ctx, dating); err != nil {
		return err
	}
	c := s.Participant.coordinator
	c.witnessing.Lock()
	defer c.witnessing.Unlock()
	from := s.Participant.sharedFrom()
	if oldest := s.oldest.Load(); oldest > s.From { // the rest is compacted
		from = max(from, oldest)
	}
	saves := s.sizesToRead()
	worth := func() bool { return saves > ofSizes*askingCosts*float64(1+c.asked) }
	if !worth() {
		return nil
	}
	mayAsk := func(w *change.Stream, leased bool) bool { return s.Participant.mayAsk(w, leased, from) }
	for _, w := range s.Witnesses(mayAsk) {
		if saves = s.sizesToRead(); !worth() {
			break
		}
		err := s.ask(ctx, w, from, saves)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.Participant.recordAsked(w.Stream, from, apiclient.IsRefused(err))
		if err != nil {
			c.reportUnasked(w.Stream.Resource.ID(), err)
		}
	}
	return nil
}

// reportUnasked reports that a witness explains nothing, and warns once if it is a refusal that makes recoveries expensive. It is
// called while witnesses are asked.
func (c *Coordinator) reportUnasked(id string, err error) {
	if id == MostWritten && apierrors.IsForbidden(err) && !c.warned {
		c.warned = true
		c.log.Warn("recoveries make several times as many requests, since Leases may not be listed: grant what exporter "+
			"rbac prints", "error", err)
		return
	}
	c.log.Debug("a resource that is not exported explains no revisions", "resource", id, "error", err)
}

// sizesToRead returns how many sizes the recoveries of the round have yet to read, if none of them finds a change. It returns 0
// if this recovery is alone.
func (s *search) sizesToRead() float64 {
	return float64(s.Participant.waiting()) * float64(len(s.explained.unexplained(s.oldest.Load(), s.To)))
}

// ask lists the witness at the end of the gap, and walks back what has changed in it.
func (s *search) ask(ctx context.Context, w Witness, from uint64, saves float64) error {
	p := s.Participant.coordinator.joinWitness(w.Stream, w.Leased)
	p.Begin()
	defer p.End()
	local, otherEtcd, err := w.Store(ctx)
	if err != nil {
		return err
	}
	p.SetStore(local, otherEtcd)
	learns := false
	p.locked(func(*Coordinator) { learns = s.Participant.learnsFrom(p) })
	if !learns {
		return nil
	}
	listed, err := w.History.Size(ctx, s.To)
	if costs := s.meter.now(); err != nil || costs.listCost(listed, false) > saves*costs.read {
		return err
	}
	gap := Gap{From: from, To: s.To, Listed: listed, ListedIn: map[string]int64{}, Kind: Kind{Several: w.Leased},
		Parallel:    s.Parallel,
		Participant: p, tuning: s.tuning}
	err = w.History.Names(ctx, "", s.To, func(o apiclient.Object) error {
		version, err := o.Version.Revision()
		if version > gap.From {
			gap.Changed = append(gap.Changed, o)
		}
		return err
	})
	if err != nil {
		return err
	}
	x := newSearch(w.History, known.New(), gap)
	x.witness = true
	return x.testify(ctx)
}

// testify finds the writes of the objects that a list shows, at the end of the gap or before.
func (s *search) testify(ctx context.Context) error {
	s.oldest.Store(s.From)
	if err := s.explainChanged(); err != nil {
		return err
	}
	if err := s.readPastLists(ctx); err != nil {
		return err
	}
	if s.shown() > 0 { // to walk would ask once for each change that they show
		return nil
	}
	if err := s.walkBefore(ctx, s.newChanged(), s.recordDeleted()); err != nil {
		return fmt.Errorf("walk back what changed of %s: %w", s.Participant.stream.ID(), err)
	}
	return nil
}
