package pgdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// Error is a failed call: what was tried, on which database, why it failed and what the user can do.
type Error struct {
	Op    string // "commit batch 7 of slot 2"
	Where string // the database, without the password
	Err   error
}

// Fail wraps err with what was tried on this database; nil stays nil.
func (db *DB) Fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Where: db.where, Err: err}
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s in %s: %v", e.Op, e.Where, e.Err)
	if hint := e.Hint(); hint != "" {
		text += ": " + hint
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Transient reports whether the call may succeed when it is tried again later.
func (e *Error) Transient() bool { return classify(e.Err).transient }

// Hint says what the user can do; empty when there is nothing to say.
func (e *Error) Hint() string { return classify(e.Err).hint }

type class struct {
	transient bool
	hint      string
}

// byCode: https://www.postgresql.org/docs/current/errcodes-appendix.html. An entry of two letters stands for all
// codes that begin with them.
var byCode = map[string]class{
	"08":    {true, ""}, // connection exceptions
	"25006": {true, "this server is read-only: a standby, or a failover is under way; the URL should name the primary"},
	"40001": {true, ""}, // serialization failure
	"40P01": {true, ""}, // deadlock: the other one went on
	"53100": {true, "the database server's disk is full: make room; it goes on by itself"},
	"53200": {true, "the database server is out of memory"},
	"53300": {true, "raise max_connections, or lower pool_max_conns in the URL"},
	"53":    {true, ""}, // insufficient resources
	"55P03": {true, ""}, // lock not available: lock_timeout
	"57014": {true, "statement_timeout of this user or database is too short"},
	"57P01": {true, ""}, // admin shutdown: restarting
	"57P02": {true, ""}, // crash shutdown
	"57P03": {true, ""}, // cannot connect now: starting up
	"57P05": {true, ""}, // idle session timeout
	"58030": {true, "the database server has trouble with its disk: see its log"},
	"28":    {false, "check user and password in the URL, and pg_hba.conf"},
	"3D000": {false, "create the database, or correct its name in the URL"},
	"42501": {false, "the user needs the right to create a schema in the database, or to own the schema"},
	"42P01": {false, "a table is missing: was the schema dropped? Restart to make it anew"},
	"3F000": {false, "the schema is missing: was it dropped? Restart to make it anew"},
}

func classify(err error) class {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		if c, ok := byCode[pg.Code]; ok {
			return c
		}
		return byCode[pg.Code[:min(2, len(pg.Code))]]
	}
	if errors.Is(err, context.Canceled) {
		return class{}
	}
	if unreachable(err) {
		return class{true, "is the database running, and can it be reached from here?"}
	}
	return class{transient: broken(err)}
}

// unreachable: no connection was made.
func unreachable(err error) bool {
	var dns *net.DNSError
	var connect *pgconn.ConnectError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH) || errors.As(err, &dns) ||
		errors.Is(err, syscall.ENOENT) && errors.As(err, &connect) || // the socket file
		errors.As(err, &connect) && errors.Is(err, context.DeadlineExceeded)
}

// broken: the connection ended while it was in use, or nothing was heard in time.
func broken(err error) bool {
	var timeout net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) ||
		pgconn.SafeToRetry(err) || strings.Contains(err.Error(), "conn closed")
}
