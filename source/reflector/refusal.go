package reflector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/source/apiclient"
)

// failed returns the error of what the stream has tried. Its public form says neither that, nor what the API server's refusal
// names.
func (r *Reflector) failed(err error, tried string, args ...any) error {
	names := strings.NewReplacer(r.stream.Resource.ID()+" is forbidden", "forbidden",
		fmt.Sprintf(" in the namespace %q", r.stream.Namespace), "",
		fmt.Sprintf(" resource %q in API group %q", r.stream.Resource.Plural, r.stream.Resource.Group), "")
	return fault.WithPublic(fmt.Errorf("%s: %w", fmt.Sprintf(tried, args...), err), names.Replace(fault.Public(err)))
}

// refusal is a time in which the API server refuses the stream with 401, 403, 404 or 405 (apiclient.IsRefused). A single refusal
// may mean nothing. A server that has just started answers 404 for a custom resource, and 403 until it has read its roles. So the
// second refusal emits a control record, and the next watch that opens emits another one. A list that succeeds does not end the
// refusal, since the right to watch may be missing. For a resource that can't be exported (ErrUnsupported) the first error emits
// the record.
type refusal struct {
	since    time.Time
	recorded bool // by a control record
}

// ErrIdle is why a request to the API server is given up: it does not answer.
var ErrIdle = apiclient.ErrIdle

// StatusCode returns the HTTP status with which the API server has answered a stream, or 0.
func StatusCode(err error) int32 { return apiclient.StatusCode(err) }

// recordRefusal records a refusal, and emits a control record if the refusal lasts. It returns err, or an error of the output.
func (r *Reflector) recordRefusal(ctx context.Context, err error) error {
	lasts := r.refusal != nil || errors.Is(err, apiclient.ErrUnsupported)
	if r.refusal == nil {
		r.refusal = &refusal{since: time.Now()}
	}
	if lasts && !r.refusal.recorded {
		if err := r.sendControl(ctx, change.StreamErrorControl(r.ID(), r.position, apiclient.Reason(err),
			r.refusal.since)); err != nil {
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
