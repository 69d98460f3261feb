package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/sinktest"
)

func own(t testing.TB, path string) *sqlitefile.File {
	t.Helper()
	file, err := sqlitefile.Own(t.Context(), path)
	must(t, err)
	t.Cleanup(file.Close)
	return file
}

func share(t testing.TB, path string) *sqlitefile.File {
	t.Helper()
	file, err := sqlitefile.Share(t.Context(), path)
	must(t, err)
	t.Cleanup(file.Close)
	return file
}

func newSink(t testing.TB, file *sqlitefile.File, c sqlite.Config) *sqlite.Sink {
	t.Helper()
	s, err := sqlite.New(t.Context(), file, c)
	must(t, err)
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
			Reader: func(t *testing.T, cluster string) sinks.ReadCloser {
				r, err := sqlite.NewReader(t.Context(), share(t, path), cluster)
				must(t, err)
				return r
			},
			Remove: func(t *testing.T, plural string) {
				const remove = `delete from log_changes where object in (select o.id from log_objects o join log_resources r on r.id = o.resource
						where r.resource = ?1);
					delete from log_objects where resource = (select id from log_resources where resource = ?1)`
				if _, err := file.DB().ExecContext(t.Context(), remove, plural); err != nil {
					t.Fatal(err)
				}
			},
			DeadLetters: func(t *testing.T) (all []change.Malformed) {
				rows, err := share(t, path).DB().QueryContext(t.Context(), `select stream, body, reason from log_dead_letters`)
				must(t, err)
				defer rows.Close()
				for rows.Next() {
					var m change.Malformed
					must(t, rows.Scan(&m.Stream, &m.Bytes, &m.Reason))
					all = append(all, m)
				}
				return all
			},
		}
	})
}

// The owner and readers leave a log in an earlier format as it is. The error names the file, and says what to do.
func TestALogInAnEarlierFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file := own(t, path)
	newSink(t, file, sqlite.Config{Cluster: sinktest.Name})
	const back = `alter table log_changes rename column back to depth; drop view changes_by; delete from log_migrations where version_id > 1`
	if _, err := file.DB().Exec(back); err != nil {
		t.Fatal(err)
	}
	_, writes := sqlite.New(t.Context(), file, sqlite.Config{Cluster: sinktest.Name})
	_, reads := sqlite.NewReader(t.Context(), share(t, path), sinktest.Name)
	for _, err := range []error{writes, reads} {
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move the file away") {
			t.Errorf("it said: %v", err)
		}
	}
	var run int
	if err := file.DB().QueryRow(`select max(version_id) from log_migrations`).Scan(&run); err != nil || run != 1 {
		t.Errorf("migration %d was run (%v)", run, err)
	}
}
