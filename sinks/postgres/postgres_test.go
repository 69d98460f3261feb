package postgres_test

import (
	"testing"

	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/sinks/sinktest"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func TestContract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) func(*testing.T) sinks.Sink {
		url := servers.Database(t)
		return func(t *testing.T) sinks.Sink { return open(t, url, "prod") }
	})
}

func open(t testing.TB, url, cluster string) *postgres.Sink {
	t.Helper()
	sink, err := postgres.Open(t.Context(), postgres.Config{URL: url, Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	return sink
}
