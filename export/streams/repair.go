package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
)

// repairBySignal repairs in the log the objects that a signal names.
func repairBySignal(ctx context.Context, j *signalJob) (checkpoint.SignalAnswer, error) {
	var repairs []change.Repair
	if err := json.Unmarshal(j.Params, &repairs); err != nil {
		return checkpoint.SignalAnswer{}, fmt.Errorf("read the objects to repair: %w", err)
	}
	all, err := j.streams.slot.Parts.Store.Signals(ctx, false)
	if err != nil {
		return checkpoint.SignalAnswer{}, dependency.Tag(dependency.Checkpoint, err)
	}
	asked := len(repairs)
	if repairs, err = notRepaired(repairs, j.Signal, all); err != nil {
		return checkpoint.SignalAnswer{}, err
	}
	written, err := j.stream.Repair(ctx, fmt.Sprintf("repair:%d", j.ID), repairs)
	return checkpoint.SignalAnswer{Done: int64(written), Total: int64(asked),
		Reason: fmt.Sprintf("%d objects repaired, %d have changed since", written, asked-written)}, err
}

// notRepaired leaves out the objects that an earlier signal has repaired since they were compared.
func notRepaired(repairs []change.Repair, mine checkpoint.Signal, all []checkpoint.Signal) ([]change.Repair, error) {
	repairedBy := map[string]int64{} // the last signal, by key
	for _, g := range all {
		if g.Kind != change.SignalRepair || g.Stream != mine.Stream || g.ID >= mine.ID {
			continue
		}
		var earlier []change.Repair
		if err := json.Unmarshal(g.Params, &earlier); err != nil {
			return nil, fmt.Errorf("read the objects that signal %d repairs: %w", g.ID, err)
		}
		for _, r := range earlier {
			repairedBy[r.Key] = max(repairedBy[r.Key], g.ID)
		}
	}
	return slices.DeleteFunc(repairs, func(r change.Repair) bool { return repairedBy[r.Key] > r.After }), nil
}
