package reflector

import (
	"context"
	"errors"
	"time"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// refusal is a time in which the API server refuses the stream with 401, 403, 404 or 405 (apiclient.IsRefused). A single refusal may
// mean nothing. A server that has just started answers 404 for a custom resource, and 403 until it has read its roles. So the second
// refusal emits a control record, and the next watch that opens emits another one. A list that succeeds does not end the refusal, since
// the right to watch may be missing. For a resource that can't be exported (ErrUnsupported) the first error emits the record.
type refusal struct {
	since    time.Time
	recorded bool // by a control record
}

// ErrIdle is why a request to the API server is given up: it does not answer.
var ErrIdle = apiclient.ErrIdle

// IsRefused reports that an error of a stream is a refusal by the API server.
func IsRefused(err error) bool { return apiclient.IsRefused(err) }

// recordRefusal records a refusal, and emits a control record if the refusal lasts. It returns err, or an error of the output.
func (r *Reflector) recordRefusal(ctx context.Context, err error) error {
	lasts := r.refusal != nil || errors.Is(err, apiclient.ErrUnsupported)
	if r.refusal == nil {
		r.refusal = &refusal{since: time.Now()}
	}
	if lasts && !r.refusal.recorded {
		if err := r.sendControl(ctx, change.StreamErrorControl(r.ID(), r.position, apiclient.Reason(err), r.refusal.since)); err != nil {
			return err
		}
		r.refusal.recorded = true
	}
	return err
}

// endRefusal ends the refusal, if there is one: the server answers.
func (r *Reflector) endRefusal(ctx context.Context) error {
	if r.refusal == nil {
		return nil
	}
	if r.refusal.recorded {
		record := change.StreamRecoveredControl(r.ID(), r.position, "the API server answers again", r.refusal.since)
		if err := r.sendControl(ctx, record); err != nil {
			return err
		}
	}
	r.refusal = nil
	return nil
}
