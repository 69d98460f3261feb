package postgres_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// BenchmarkWrite writes batches of 1,000 updates with bodies of 4 KB, before and after. Compare changes/cpu-s, the changes for
// each second of this process's CPU time. The server's CPU time is not included.
func BenchmarkWrite(b *testing.B) {
	sink := open(b, servers.SharedPostgres(b).URL, servers.UniqueName())
	defer sink.Close()
	opened, err := sink.Open(b.Context(), 0, 1, sinks.Durable{})
	must(b, err)
	batch := &change.Batch{Epoch: 1}
	for i := range 1000 {
		c := event(pods, change.Update, fmt.Sprint("pod-", i), "uid", fmt.Sprint(i))
		c.Before = fmt.Appendf(nil, `{"i":%d,"spec":[%s{}]}`, i, strings.Repeat(`{"name":"SETTING","value":"1"},`, 130))
		c.After = c.Before
		batch.Changes = append(batch.Changes, c)
	}
	b.ReportAllocs()
	started := cpu()
	for b.Loop() {
		batch.Seq++
		if _, err := opened.Log.Write(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	changes := float64(b.N * 1000)
	b.ReportMetric(changes/(cpu()-started).Seconds(), "changes/cpu-s")
	b.ReportMetric(changes/b.Elapsed().Seconds(), "changes/s")
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
