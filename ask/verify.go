package ask

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/suggest"
	"kubecdc/internal/wait"
	"kubecdc/setup"
	"kubecdc/source/discovery"
	"kubecdc/verify"
)

// Verification says what to compare with the cluster.
type Verification struct {
	Resources  []string // empty for all
	Namespace  string   // only this namespace of the streams, unless it is empty
	Identities bool     // without the contents of objects
	Repair     bool     // ask the exporters to write what differs, and compare again
}

// verification is one comparison. The requester's store is nil if the checkpoint can't be read.
type verification struct {
	*Requester
	compare verify.Comparison
	skipped []verify.Result
}

// Verify compares the exported copies with the cluster. It opens the checkpoint. It also returns *sinks.Hole if the log has a
// hole that no record explains.
func (a *Requester) Verify(ctx context.Context, o Verification) ([]verify.Result, error) {
	v := &verification{Requester: a}
	step := dependency.Step{Awaited: "the API server", Limit: setup.OpenLimit, Before: a.Cluster.Before()}
	err := dependency.Once(ctx, step, func(ctx context.Context) error {
		if err := a.Cluster.Identify(ctx, nil); err != nil {
			return err
		}
		return v.selectStreams(ctx, &o)
	})
	if err != nil {
		return nil, err
	}
	log, err := setup.OpenLog(ctx, "verify", a.Settings, a.Cluster.Cluster)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if !o.Identities {
		v.compare.Hash = verify.NewHash()
	}
	v.compare.Log, v.compare.Server = log, a.Cluster.Server
	v.compare.Copies = verify.Log(log, setup.SinkOf(a.Settings).Copies, v.compare.Streams, v.compare.Hash)
	if err := v.addInventory(ctx); err != nil {
		return nil, err
	}
	all, err := v.results(ctx, o.Repair)
	return append(all, v.skipped...), verify.WithHole(ctx, log, err)
}

// addInventory adds the inventory to the copies. It omits an SQLite file that can't be read, because it is on another machine.
func (v *verification) addInventory(ctx context.Context) error {
	err := v.OpenStore(ctx)
	switch {
	case err != nil && strings.HasPrefix(v.Settings.Checkpoint.Location.Reveal(), "postgres"):
		return err
	case err != nil:
		plain.Fprintf(v.Report, "the inventory is left out: %s\n", plain.Redact(err.Error()))
		return nil
	}
	v.compare.Store, v.compare.Copies = v.Store, append(v.compare.Copies, verify.Inventory(v.Store))
	return nil
}

// selectStreams finds the exported streams, of some resources or of all.
func (v *verification) selectStreams(ctx context.Context, o *Verification) error {
	plan, err := setup.ExportConfig(v.Settings)
	if err != nil {
		return err
	}
	v.compare.Rules, v.compare.NoUpdates = &plan, plan.Content.NoUpdates
	served, err := v.Cluster.Server.Served(ctx)
	if err != nil {
		return err
	}
	selected, unknown := discovery.Select(plan.Resources, served)
	if len(unknown) > 0 {
		return discovery.Unknown(unknown, served)
	}
	var ids []string
	for _, r := range selected {
		ids = append(ids, r.ID())
	}
	names, err := suggest.Resources(served.Long(o.Resources), ids, "the export has no")
	if err != nil {
		return err
	}
	for _, r := range selected {
		if len(names) > 0 && !slices.Contains(names, r.ID()) {
			continue
		}
		aggregated, err := discovery.Aggregated(ctx, v.Cluster.Server.Client(), r)
		if err != nil {
			return err
		}
		for _, s := range plan.StreamsOf(r) {
			if o.Namespace != "" && s.Namespace != o.Namespace {
				continue
			}
			if aggregated {
				v.skipped = append(v.skipped, verify.Result{Stream: s.ID(), Differences: []verify.Difference{},
					Problem: "its API server is aggregated, and may not know the state at a resourceVersion"})
				continue
			}
			v.compare.Streams = append(v.compare.Streams, s)
		}
	}
	if len(v.compare.Streams)+len(v.skipped) == 0 && o.Namespace != "" {
		return fault.Usagef("none of these has a stream of namespace %s alone: leave -n out", o.Namespace)
	}
	return nil
}

func (v *verification) results(ctx context.Context, repair bool) ([]verify.Result, error) {
	if !repair {
		return v.compare.Results(ctx)
	}
	if v.Store == nil {
		return nil, errors.New("the checkpoint can't be read, through which exporters are asked to repair")
	}
	after, err := verify.Repaired(ctx, v.Store)
	if err != nil {
		return nil, err
	}
	all, err := v.compare.Results(ctx)
	if err != nil || verify.Differing(all) == 0 {
		return all, err
	}
	requests, err := verify.Repairs(v.compare.Streams, all, after)
	if err == nil {
		err = v.Ask(ctx, requests, true)
	}
	if err != nil {
		return nil, err
	}
	return v.repaired(ctx)
}

// checkpointLag is how long the checkpoint may take to get what is in the log. A repair is answered once it is in the log.
const checkpointLag = 15 * time.Second

// repaired compares until nothing differs, or until the checkpoint must have what was repaired.
func (v *verification) repaired(ctx context.Context) ([]verify.Result, error) {
	for limit := time.Now().Add(checkpointLag); ; {
		all, err := v.compare.Results(ctx)
		if err != nil || verify.Differing(all) == 0 || time.Now().After(limit) {
			return all, err
		}
		if err := wait.For(ctx, askInterval); err != nil {
			return nil, err
		}
	}
}
