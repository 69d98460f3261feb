package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"kubecdc/test/servers"
)

const (
	sliceWarmUp = 3 * time.Second
	sliceTime   = 10 * time.Second

	sightingLimit = 30 * time.Second // after the last answer
)

// latencyAPI measures the time from a write to a real API server, with its etcd, to the moment when a consumer has the record. It
// measures exactly-once by both protocols of transactions, and at-least-once. Exporters that watch at the same time would disturb each
// other. So they take turns, each started anew, first in one order and then in the other. A drift of the machine then affects all of
// them.
func latencyAPI(ctx context.Context, b *bench) (results []result, err error) {
	kube, err := servers.StartKubernetes(ctx, servers.KubernetesOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = kube.Stop() }()
	w, err := newWriter(ctx, kube.Config)
	if err != nil {
		return nil, err
	}
	for _, rate := range []int{10, 1000} {
		one := &turns{name: "exactly", rate: rate}
		two := &turns{name: "exactly-protocol2", rate: rate, settings: []setting{protocol2}}
		least := &turns{name: "least", rate: rate, settings: []setting{atLeastOnce}}
		for _, t := range []*turns{one, two, least, least, two, one} {
			if err := t.take(ctx, b, kube.Kubeconfig, w); err != nil {
				return nil, err
			}
		}
		for _, t := range []*turns{one, two, least} {
			results = append(results, t.result(fmt.Sprintf("%s-%d-%s", b.row, rate, t.name)))
		}
	}
	return results, nil
}

// turns are what one row is made of.
type turns struct {
	name                 string
	rate                 int // changes a second that are to be written
	settings             []setting
	sum                  result
	fromSent, fromAnswer delays
	late                 time.Duration // at most, of a write behind its moment
}

func (t *turns) take(ctx context.Context, b *bench, kubeconfig string, w *writer) error {
	e, err := b.startExporter(ctx, kubeconfig, t.settings...)
	if err != nil {
		return err
	}
	defer e.close()
	if err := e.awaitReady(ctx); err != nil {
		return err
	}
	seen, err := b.watchTopic(ctx, e.prefix+".configmaps")
	if err != nil {
		return err
	}
	defer seen.close()
	if _, err := writeAndSee(ctx, w, seen, t.rate, sliceWarmUp); err != nil {
		return e.failed(err.Error())
	}
	var all []sighting
	r, err := e.during(func() (err error) {
		all, err = writeAndSee(ctx, w, seen, t.rate, time.Duration(b.plan.scale*float64(sliceTime)))
		return err
	})
	if err != nil {
		return e.failed(err.Error())
	}
	t.add(r, all)
	return nil
}

// sighting is a write whose record has come.
type sighting struct {
	written
	seen time.Time
}

func writeAndSee(ctx context.Context, w *writer, seen *witness, rate int, during time.Duration) ([]sighting, error) {
	writes, err := w.write(ctx, rate, during)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sightingLimit)
	defer cancel()
	all := make([]sighting, len(writes))
	for i, one := range writes {
		seenAt, err := seen.await(ctx, one.version)
		if err != nil {
			return nil, fmt.Errorf("write %d of %d: %w", i, len(writes), err)
		}
		all[i] = sighting{one, seenAt}
	}
	return all, nil
}

func (t *turns) add(r result, all []sighting) {
	t.sum.events += len(all)
	t.sum.cpu += r.cpu
	t.sum.wall += r.wall
	t.sum.peak = max(t.sum.peak, r.peak)
	for _, s := range all {
		t.fromSent = append(t.fromSent, s.seen.Sub(s.sent))
		t.fromAnswer = append(t.fromAnswer, s.seen.Sub(s.answered))
		t.late = max(t.late, s.sent.Sub(s.planned))
	}
}

// result tells the rate that was reached by its speed: until the last record was seen.
func (t *turns) result(name string) result {
	r := t.sum
	r.name, r.unit = name, "change"
	r.remark = fmt.Sprintf("of %d/s; since the write: %s; since its answer: %s; writes at most %s late", t.rate, t.fromSent, t.fromAnswer, ms(t.late))
	return r
}

// awaitReady waits until the first list of every stream is in the log.
func (e *exporter) awaitReady(ctx context.Context) error {
	for {
		response, err := http.Get("http://" + e.listen + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-e.Done():
			return e.failed("ended before it was ready")
		case <-ctx.Done():
			return e.failed("is not ready")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
