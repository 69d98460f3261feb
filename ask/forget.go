package ask

import (
	"context"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export"
	"kubecdc/export/plan"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/setup"
)

// Forget forgets streams. It asks the exporters that hold the streams' slots to do so.
func (a *Requester) Forget(ctx context.Context, found []change.Position, untilDone bool) error {
	owner := plan.Config{Slots: a.Settings.Slots.Count, Owner: setup.Owner(), LeaseDuration: a.Settings.Slots.LeaseDuration}
	var requests []checkpoint.Signal
	for _, p := range found {
		err := export.Forget(ctx, owner, a.Store, p.Stream)
		switch {
		case fault.Is[*checkpoint.NotEndedError](err):
			return fault.Usage(err.Error() + ": only a stream that is not selected any more can be forgotten; exporter forget " +
				"lists them")
		case fault.Is[*checkpoint.HeldError](err):
			requests = append(requests, checkpoint.Signal{Kind: change.SignalForget, Stream: p.Stream})
		case err != nil:
			return err
		default:
			plain.Fprintf(a.Out, "%s: forgotten\n", p.Stream)
		}
	}
	if len(requests) == 0 {
		return nil
	}
	return a.Ask(ctx, requests, untilDone)
}
