package pgdb_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"kubecdc/internal/pgdb"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

// A host that vanishes, or a server that hangs, fails a statement in time, while it is sent or while the answer is awaited. The error
// says so, and the next statement succeeds once the server is back.
func TestAServerThatIsGoneFailsAStatementInTime(t *testing.T) {
	pgdb.SetAnswerTime(3 * time.Second)
	vanish := func(p *servers.Proxy) error { return p.EachClient(ignorePackets) }
	hang := func(p *servers.Proxy) error { p.Freeze(); return nil }
	for name, test := range map[string]struct {
		seconds int32 // that it is at work
		ask     func(ctx context.Context, db *pgdb.DB, seconds int32) error
		fault   func(*servers.Proxy) error
		want    string
	}{
		"it vanishes before a statement":  {0, query, vanish, ""},
		"it vanishes while it is at work": {60, query, vanish, ""},
		"it hangs before a call":          {0, call, hang, "no answer within 3s"},
		"it hangs while it is at work":    {60, call, hang, "no answer within 3s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, err := servers.NewProxy(servers.SharedPostgres(t).Address)
			must(t, err)
			defer proxy.Close()
			database := servers.Database(t)
			db := openAt(t, database, proxy, "tcp_user_timeout=2000&connect_timeout=2")
			done := make(chan error, 1)
			if test.seconds > 0 {
				go func() { done <- test.ask(t.Context(), db, test.seconds) }()
				awaitSleeper(t, database)
				must(t, test.fault(proxy))
			} else {
				must(t, test.ask(t.Context(), db, test.seconds)) // the connection is there
				must(t, test.fault(proxy))
				go func() { done <- test.ask(t.Context(), db, test.seconds) }()
			}
			late, cancel := servers.Patient(t.Context())
			defer cancel()
			select {
			case err := <-done:
				err = db.Fail("ask", err)
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "can it be reached from here?") {
					t.Errorf("error is %v, want one with %q and a hint", err, test.want)
				}
			case <-late.Done():
				t.Error("the statement still hangs after 15 s")
			}
			must(t, proxy.Restore())
			proxy.Drop() // a machine that is back has forgotten its connections
			ctx, cancel := servers.Patient(t.Context())
			defer cancel()
			if err := test.ask(ctx, db, 0); err != nil && test.ask(ctx, db, 0) != nil {
				t.Errorf("once it is back: %v", err)
			}
		})
	}
}

// naps has a function that is at work for some seconds.
var naps = fstest.MapFS{"migrations/00001_nap.sql": {Data: []byte(
	`create function nap(in_seconds int) returns text language sql as 'select pg_sleep(in_seconds)::text';`)}}

func openAt(t *testing.T, database string, proxy *servers.Proxy, options string) *pgdb.DB {
	t.Helper()
	u, err := url.Parse(database)
	must(t, err)
	u.Host = proxy.Address
	u.RawQuery += "&" + options
	db, err := pgdb.Open(t.Context(), pgdb.Options{URL: u.String(), Schema: "naps", Migrations: naps, Setting: "KUBECDC_CHECKPOINT"})
	must(t, err)
	t.Cleanup(db.Close)
	return db
}

func call(ctx context.Context, db *pgdb.DB, seconds int32) error {
	_, err := db.Call(ctx, "naps.nap", pgdb.Int4("in_seconds", seconds))
	return err
}

func query(ctx context.Context, db *pgdb.DB, seconds int32) error {
	_, err := db.Exec(ctx, "select pg_sleep($1)", float64(seconds))
	return err
}

// awaitSleeper waits until a statement that sleeps is being run in the database.
func awaitSleeper(t *testing.T, database string) {
	t.Helper()
	conn := servers.Connect(t, database)
	for asleep := false; !asleep; time.Sleep(20 * time.Millisecond) {
		must(t, conn.QueryRow(t.Context(), `select exists (select from pg_stat_activity
			where datname = current_database() and wait_event = 'PgSleep' and state = 'active')`).Scan(&asleep))
	}
}

func TestAWrongTimeoutInTheURLIsNamed(t *testing.T) {
	_, err := pgdb.Open(t.Context(), pgdb.Options{URL: "postgres://u:secret-pw@h/d?tcp_user_timeout=30s", Setting: "KUBECDC_CHECKPOINT"})
	if !errors.Is(err, pgdb.ErrURL) || !strings.Contains(err.Error(), `tcp_user_timeout is "30s"`) || strings.Contains(err.Error(), "secret-pw") {
		t.Errorf("error is %v", err)
	}
}

var must = require.NoError

// ignorePackets drops what arrives before TCP sees it: a socket filter (SO_ATTACH_FILTER in socket(7)) that takes nothing.
func ignorePackets(c net.Conn) error {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	nothing := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	control := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing})
	})
	if err == nil {
		err = control
	}
	return err
}
