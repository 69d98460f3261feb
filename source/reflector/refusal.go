package reflector

import (
	"context"
	"errors"
	"time"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// refusal is a span of time in which the API server refuses the stream: 401, 403, 404 or 405 (isRefused). One refusal may pass: a
// server that has just started answers 404 for a custom resource, and 403 before it has read its roles. From the second on
// the log says so, once; and once more when a watch is open again. A list that succeeds says nothing: the right to watch
// may be missing. A resource that can't be exported (ErrUnsupported) is told at once: that does not pass.
type refusal struct {
	since time.Time
	told  bool
}

// noteRefusal takes note of a refusal, and tells the log when it lasts. It gives the error back, or that of the output.
func (s *Reflector) noteRefusal(ctx context.Context, err error) error {
	lasts := s.refusal != nil || errors.Is(err, apiclient.ErrUnsupported)
	if s.refusal == nil {
		s.refusal = &refusal{since: time.Now()}
	}
	if lasts && !s.refusal.told {
		if err := s.tellRefusal(ctx, change.ControlStreamError, apiclient.Reason(err)); err != nil {
			return err
		}
		s.refusal.told = true
	}
	return err
}

// answered ends the refusal.
func (s *Reflector) answered(ctx context.Context) error {
	if s.refusal == nil {
		return nil
	}
	if s.refusal.told {
		if err := s.tellRefusal(ctx, change.ControlStreamRecovered, "the API server answers again"); err != nil {
			return err
		}
	}
	s.refusal = nil
	return nil
}

func (s *Reflector) tellRefusal(ctx context.Context, kind, cause string) error {
	return s.sendControl(ctx, change.Control{Type: kind, ResourceVersion: s.position, Cause: cause, SinceMs: s.refusal.since.UnixMilli()})
}
