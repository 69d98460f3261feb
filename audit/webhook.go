package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"kubecdc/internal/fault"
	"kubecdc/internal/rawjson"
)

// Webhook takes what kube-apiserver sends with --audit-webhook-config-file: an EventList in each request. It answers 200 once all
// of it is durable. At any other answer the API server sends it again, four times, and then drops it.
type Webhook struct {
	intake *Intake
	log    *slog.Logger
	turns  chan struct{}
}

const (
	// requestsAtOnce bounds the memory that requests take: each holds one event, and the records of some.
	requestsAtOnce = 4
	// requestLimit is how long a request may take: the API server waits for 30 seconds.
	requestLimit = 28 * time.Second
)

// NewWebhook returns a handler that is safe for concurrent use. The caller has checked who asks.
func NewWebhook(i *Intake, log *slog.Logger) *Webhook {
	return &Webhook{i, log, make(chan struct{}, requestsAtOnce)}
}

func (w *Webhook) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestLimit)
	defer cancel()
	c := http.NewResponseController(answer)
	until := time.Now().Add(requestLimit)
	_, _ = c.SetReadDeadline(until), c.SetWriteDeadline(until.Add(time.Second))
	select {
	case w.turns <- struct{}{}:
		defer func() { <-w.turns }()
	case <-ctx.Done():
		http.Error(answer, "too many requests are being written", http.StatusTooManyRequests)
		return
	}
	if err := w.take(ctx, r); err != nil {
		if !errors.Is(err, ErrNotOpen) {
			w.log.Warn("audit events of a request were not written; the API server sends them again", "error", err)
		}
		http.Error(answer, "the events are not durable: the exporter's log says why", http.StatusServiceUnavailable)
	}
}

// take reads an EventList as it comes off the wire. The events after malformed JSON can't be found, so the rest of such a list is
// lost.
func (w *Webhook) take(ctx context.Context, r *http.Request) error {
	b, err := w.intake.begin(ctx)
	if err != nil {
		return err
	}
	body := rawjson.NewReader(r.Body)
	err = body.Object(func(name string) error {
		if name != "items" {
			_, err := body.Value()
			return err
		}
		return body.Array(func() error {
			event, err := body.Value()
			if fault.Is[*rawjson.TooLargeError](err) {
				b.tally.Broken++
				return nil
			}
			if err != nil {
				return err
			}
			return b.add(event)
		})
	})
	if errors.Is(err, rawjson.ErrMalformed) {
		w.log.Warn("a request of the audit webhook is no EventList: its readable events are recorded", "error", err)
		b.tally.Broken++
		err = nil
	}
	if err != nil {
		return fmt.Errorf("read the events of the audit webhook: %w", err)
	}
	return b.write()
}
