package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubecdc/test/servers"
)

// slice is what was measured in one go: requests a second, milliseconds, and microseconds of the API server's CPU a request.
type slice struct{ rate, median, p99, cpu float64 }

const namespace = "default"

func (b *bench) create(ctx context.Context, name string) error {
	_, err := b.api.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// measure has the clients write, and counts the requests that were answered after the warm-up.
func (b *bench) measure(ctx context.Context) (s slice, err error) {
	group, running := errgroup.WithContext(ctx)
	from := time.Now().Add(b.during / 4)
	to := from.Add(b.during)
	var mu sync.Mutex
	var took []float64
	for range b.clients {
		group.Go(func() error {
			own, err := b.write(running, from, to)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
			return err
		})
	}
	time.Sleep(time.Until(from))
	before, err := b.cpu(ctx)
	if err != nil {
		return s, err
	}
	time.Sleep(time.Until(to))
	after, err := b.cpu(ctx)
	if err != nil {
		return s, err
	}
	if err := group.Wait(); err != nil || len(took) == 0 {
		return s, fmt.Errorf("%d requests were answered: %w", len(took), err)
	}
	slices.Sort(took)
	n := len(took)
	return slice{float64(n) / b.during.Seconds(), took[n/2], took[n*99/100], (after - before) * 1e6 / float64(n)}, nil
}

// write is what a client does: objects that it creates, patches eight times and deletes. It returns how many milliseconds each request took.
func (b *bench) write(ctx context.Context, from, to time.Time) (took []float64, err error) {
	maps := b.api.CoreV1().ConfigMaps(namespace)
	do := func(request func() error) {
		began := time.Now()
		if err != nil || began.After(to) {
			return
		}
		if err = request(); err == nil && began.After(from) && time.Now().Before(to) {
			took = append(took, time.Since(began).Seconds()*1e3)
		}
	}
	for err == nil && time.Now().Before(to) {
		name := servers.UniqueName()
		do(func() error { return b.create(ctx, name) })
		for n := range 8 {
			do(func() error {
				_, err := maps.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n), metav1.PatchOptions{})
				return err
			})
		}
		do(func() error { return maps.Delete(ctx, name, metav1.DeleteOptions{}) })
	}
	return took, err
}

// cpu is how many seconds of CPU the API server has used.
func (b *bench) cpu(ctx context.Context) (float64, error) {
	text, err := b.api.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), "process_cpu_seconds_total "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("the API server's metrics have no process_cpu_seconds_total")
}
