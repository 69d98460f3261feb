package postgres_test

import (
	"testing"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/postgres"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func TestContract(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, servers.Database(t)) })
}

// A pooler by transaction retains nothing of a session between two statements.
func TestSlowContractBehindAPooler(t *testing.T) {
	servers.Slow(t)
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, servers.OddDatabase(t)) })
}

func open(t testing.TB, url string) *postgres.Store {
	t.Helper()
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	must(t, err)
	return store
}
