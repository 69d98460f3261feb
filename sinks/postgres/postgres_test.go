package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

func TestMain(m *testing.M) { servers.Main(m) }

func TestContract(t *testing.T) { contract(t, servers.Database) }

// A pooler with transaction pooling retains nothing of a session between two statements.
func TestSlowContractBehindAPooler(t *testing.T) {
	servers.Slow(t)
	contract(t, servers.OddDatabase)
}

func contract(t *testing.T, database func(testing.TB) string) {
	sinktest.Run(t, func(t *testing.T) sinktest.Place {
		url := database(t)
		return sinktest.Place{
			Connect:     func(t *testing.T) sinks.Sink { return openAs(t, url, sinktest.Name, sinktest.UID) },
			Another:     func(t *testing.T, cluster, uid string) sinks.Sink { return openAs(t, url, cluster, uid) },
			DeadLetters: func(t *testing.T) []change.Malformed { return malformed(t, url) },
			Remove: func(t *testing.T, plural string) {
				rows(t, url, "delete from changes where resource = '"+plural+"'; delete from objects where resource = '"+plural+"'")
			},
			Reader: func(t *testing.T, cluster string) sinks.ReadCloser {
				r, err := postgres.OpenReader(t.Context(), postgres.Config{URL: url, Cluster: cluster})
				must(t, err)
				return r
			},
		}
	})
}

func malformed(t *testing.T, url string) []change.Malformed {
	rows, _ := connect(t, url).Query(t.Context(), "select stream, body as bytes, reason from kubecdc_log.dead_letters where cluster = 'test' and slot = 3")
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[change.Malformed])
	must(t, err)
	return all
}

func open(t testing.TB, url, cluster string) *postgres.Sink { return openAs(t, url, cluster, "") }

func openAs(t testing.TB, url, cluster, uid string) *postgres.Sink {
	t.Helper()
	sink, err := postgres.Open(t.Context(), postgres.Config{URL: url, Cluster: cluster, ClusterUID: uid})
	must(t, err)
	return sink
}
