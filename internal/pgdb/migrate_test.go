package pgdb_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"kubecdc/internal/dependency"
	"kubecdc/internal/pgdb"
	"kubecdc/test/servers"
)

// Tables that are changed take longer than the start waits for an answer: they are changed once, and meanwhile it is said what
// is done.
func TestAChangeOfLargeTablesHasNoLimit(t *testing.T) {
	for _, later := range []bool{false, true} {
		name := "at the start"
		if later {
			name = "at the first connection"
		}
		t.Run(name, func(t *testing.T) {
			database := servers.Database(t)
			files := fstest.MapFS{"migrations/00001_one.sql": {Data: []byte("create table one (n int);")}}
			o := pgdb.Options{URL: database, Schema: "kubecdc", Setting: "KUBECDC_CHECKPOINT", Migrations: files, Later: later}
			first, err := pgdb.Open(t.Context(), o)
			must(t, err)
			must(t, first.Ping(t.Context()))
			first.Close()
			files["migrations/00002_two.sql"] = &fstest.MapFile{Data: []byte("create index two on one (n);")}

			writer := servers.Connect(t, database)
			watcher := servers.Connect(t, database) // a transaction sees no later activity
			tx, err := writer.Begin(t.Context())
			must(t, err)
			_, err = tx.Exec(t.Context(), "insert into kubecdc.one values (1)") // the index waits for the end of this
			must(t, err)

			asked, opened := 0, make(chan error, 1)
			var db *pgdb.DB
			step := dependency.Step{Awaited: "the database", Limit: 5 * time.Second, Upgrades: true}
			go func() {
				opened <- dependency.Once(t.Context(), step, func(ctx context.Context) (err error) {
					asked++
					db, err = pgdb.Open(ctx, o)
					return err
				})
			}()
			if later {
				must(t, <-opened)
				if err := db.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "bringing the tables up to date") {
					t.Fatalf("while the tables are changed: %v", err)
				}
				opened <- nil
			}
			servers.Await(t, "the index waits for the lock, and the limit has passed", func() (waits bool, err error) {
				return waits, watcher.QueryRow(t.Context(), `select exists (select from pg_stat_activity where datname = current_database()
					and wait_event_type = 'Lock' and clock_timestamp() > query_start + interval '5500 ms')`).Scan(&waits)
			})
			if !later && len(opened) > 0 {
				t.Fatalf("it has ended before the tables were changed: %v", <-opened)
			}
			must(t, tx.Commit(t.Context()))
			must(t, <-opened)
			defer db.Close()
			servers.Await(t, "the tables are up to date", func() (bool, error) { return db.Ping(t.Context()) == nil, nil })
			var version int
			must(t, db.QueryRow(t.Context(), "select max(version) from kubecdc.migrations").Scan(&version))
			if version != 2 || asked != 1 {
				t.Errorf("the tables are of version %d, asked %d times", version, asked)
			}
		})
	}
}
