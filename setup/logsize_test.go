package setup

import (
	"context"
	"net"
	"testing"
	"time"

	"kubecdc/config"
)

// A server that never answers holds up only the first status, and no longer than that has time.
func TestNobodyWaitsForTheSizeOfALog(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	for _, sink := range []string{"kafka", "postgres"} {
		settings, _, err := config.Load([]string{"KUBECDC_SINK=" + sink, "KUBECDC_CLUSTER=prod", "KUBECDC_KAFKA_BROKERS=" + silent.Addr().String(),
			"KUBECDC_SINK_POSTGRES=postgres://u@" + silent.Addr().String() + "/db?sslmode=disable", "KUBECDC_CHECKPOINT=sqlite:" + t.TempDir() + "/c"}, nil)
		must(t, err)
		l, began := &LogSize{Settings: settings, Cluster: "prod"}, time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if size := l.Get(ctx); size != nil || ctx.Err() == nil {
			t.Errorf("%s: the size is %+v, after %s", sink, size, time.Since(began))
		}
		for range 3 {
			l.Get(t.Context())
		}
		if took := time.Since(began); took > measureLimit/2 {
			t.Errorf("%s: it took %s", sink, took)
		}
	}
}
