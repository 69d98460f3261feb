package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// latency measures the time from a change in the synthetic API server to the moment when a consumer has its record. The exporter is at
// rest: changes come one at a time, at random moments.
func latency(settings ...setting) func(context.Context, *bench) ([]result, error) {
	const changes, warm = 200, 20
	return func(ctx context.Context, b *bench) ([]result, error) {
		p, err := b.startPair(ctx, []string{"-objects", "1000"}, settings...)
		if err != nil {
			return nil, err
		}
		defer p.close()
		if err := p.follow(ctx, 1, "send", 0); err != nil {
			return nil, err
		}
		w, err := b.watchTopic(ctx, p.prefix+".pods")
		if err != nil {
			return nil, err
		}
		defer w.close()
		var took delays
		r, err := p.during(func() error {
			for i := range changes {
				time.Sleep(20*time.Millisecond + rand.N(60*time.Millisecond))
				delay, err := delayOfOne(ctx, p.server, w)
				if err != nil {
					return err
				}
				if i >= warm {
					took = append(took, delay)
				}
			}
			return nil
		})
		r.name, r.allocs, r.remark = b.row, 0, took.String()
		return []result{r}, err
	}
}

func delayOfOne(ctx context.Context, server *apiServer, w *witness) (time.Duration, error) {
	started := time.Now()
	version, err := server.do(ctx, "send", 1)
	if err != nil {
		return 0, err
	}
	seen, err := w.await(ctx, strconv.FormatUint(version, 10))
	return seen.Sub(started), err
}

// delays are reported by their median, the 99th and 99.9th percentiles and the greatest.
type delays []time.Duration

func (d delays) String() string {
	if len(d) == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %s, p99 %s, p99.9 %s, max %s", ms(d.quantile(0.5)), ms(d.quantile(0.99)), ms(d.quantile(0.999)), ms(d.quantile(1)))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// quantile sorts.
func (d delays) quantile(q float64) time.Duration {
	slices.Sort(d)
	return d[min(int(q*float64(len(d))), len(d)-1)]
}
