package ask

import (
	"encoding/json"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/streams"
	"kubecdc/internal/fault"
	"kubecdc/setup"
)

// Snapshots returns a signal for each of the streams that is exported.
func (a *Requester) Snapshots(streams []change.Position, p streams.SnapshotParams) (requests []checkpoint.Signal, err error) {
	if sink := setup.SinkOf(a.Settings); p.All && !sink.SnapshotTopics {
		return nil, fault.Usage("--all writes to a topic of its own, and KUBECDC_SINK is " + sink.Name +
			", which has none: leave --all out")
	}
	params, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	for _, k := range streams {
		if k.Ended == "" {
			requests = append(requests, checkpoint.Signal{Kind: change.SignalSnapshot, Stream: k.Stream, Params: params})
		}
	}
	if len(requests) == 0 {
		return nil, fault.Usagef("stream %s is not exported any more: select it again first", streams[0].Stream)
	}
	return requests, nil
}
