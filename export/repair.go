package export

import (
	"context"
	"encoding/json"
	"fmt"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// repairBySignal writes what the log should have of the objects that a signal names.
func repairBySignal(ctx context.Context, j *signalJob) (checkpoint.SignalAnswer, error) {
	var repairs []change.Repair
	if err := json.Unmarshal(j.Params, &repairs); err != nil {
		return checkpoint.SignalAnswer{}, fmt.Errorf("read the objects to repair: %w", err)
	}
	written, err := j.stream.Repair(ctx, fmt.Sprintf("repair:%d", j.ID), repairs)
	return checkpoint.SignalAnswer{Done: int64(written), Total: int64(len(repairs)),
		Reason: fmt.Sprintf("%d objects repaired, %d have changed since", written, len(repairs)-written)}, err
}
