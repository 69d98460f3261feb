package sqlite_test

import (
	"path/filepath"
	"testing"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sinktest"
	"kubecdc/sinks/sqlite"
)

func own(t testing.TB, path string) *sqlitefile.File {
	t.Helper()
	file, err := sqlitefile.Own(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(file.Close)
	return file
}

func share(t testing.TB, path string) *sqlitefile.File {
	t.Helper()
	file, err := sqlitefile.Share(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(file.Close)
	return file
}

func newSink(t testing.TB, file *sqlitefile.File, c sqlite.Config) *sqlite.Sink {
	t.Helper()
	s, err := sqlite.New(t.Context(), file, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Place {
		path := filepath.Join(t.TempDir(), "log")
		file := own(t, path)
		newSink(t, file, sqlite.Config{Cluster: sinktest.Name})
		return sinktest.Place{
			Connect: func(t *testing.T) sinks.Sink {
				return newSink(t, file, sqlite.Config{Cluster: sinktest.Name, ClusterUID: sinktest.UID})
			},
			Another: func(t *testing.T, cluster, uid string) sinks.Sink {
				return newSink(t, file, sqlite.Config{Cluster: cluster, ClusterUID: uid})
			},
			Reader: func(t *testing.T, cluster string) sinks.Reader {
				r, err := sqlite.NewReader(t.Context(), share(t, path), cluster)
				if err != nil {
					t.Fatal(err)
				}
				return r
			},
			DeadLetters: func(t *testing.T) (all []change.Malformed) {
				rows, err := share(t, path).DB().QueryContext(t.Context(), `select stream, body, reason from log_dead_letters`)
				if err != nil {
					t.Fatal(err)
				}
				defer rows.Close()
				for rows.Next() {
					var m change.Malformed
					if err := rows.Scan(&m.Stream, &m.Bytes, &m.Reason); err != nil {
						t.Fatal(err)
					}
					all = append(all, m)
				}
				return all
			},
		}
	})
}
