package streams

import (
	"context"
	"encoding/json"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
)

// restores informs streams that etcd was restored from a backup, by one signal to each stream. The signals also go to streams of
// other replicas, and to streams that nobody reads now. The latter follow when they are read again.
type restores struct{ *Streams }

// restoreParams are the parameters of such a signal.
type restoreParams struct {
	Found   change.StreamID `json:"found"` // the stream that has found it
	Version string          `json:"version"`
}

func (x restores) Tell(ctx context.Context, found *change.Stream) (id int64, err error) {
	all, err := x.memory.Positions(ctx)
	if err != nil {
		return 0, err
	}
	streams := []change.StreamID{found.ID()}
	for _, p := range all {
		if p.Stream != found.ID() {
			streams = append(streams, p.Stream)
		}
	}
	params, err := json.Marshal(restoreParams{found.ID(), found.Resource.Version})
	if err == nil {
		id, err = x.slot.Parts.Store.AddSignals(ctx, checkpoint.Signal{Kind: change.SignalRestore, Params: params}, streams)
	}
	failpoint.Hit(failpoint.RestoreReported)
	return id, dependency.Tag(dependency.Checkpoint, err)
}

func (x restores) Followed(ctx context.Context, stream change.StreamID, last int64) error {
	open, err := x.openSignals(ctx)
	for _, g := range open {
		if err == nil && g.Kind == change.SignalRestore && g.Stream == stream && g.ID <= last {
			err = x.answerDurable(g.ID, checkpoint.SignalAnswer{State: change.SignalCompleted})(ctx)
		}
	}
	return err
}

// restoreBySignal informs a stream that is read. The signal waits until the stream has followed.
func (st *Streams) restoreBySignal(_ context.Context, g checkpoint.Signal) (begun bool, err error) {
	if r := st.reading(g.Stream); r != nil {
		r.followRestore(g)
	}
	return false, nil
}

func (r *beingRead) followRestore(g checkpoint.Signal) {
	var p restoreParams
	_ = json.Unmarshal(g.Params, &p) // without them the stream follows, whichever etcd it is in
	found := change.ParseStream(p.Found)
	resource := found.Resource
	resource.Version = p.Version
	r.FollowRestore(g.ID, found.As(resource))
}
