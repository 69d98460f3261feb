package pgdb

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"kubecdc/internal/dberror"
)

// Fail wraps err with what was tried on this database; nil stays nil.
func (db *DB) Fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &dberror.Error{Op: op, Where: db.where, Err: err, Class: classify(err)}
}

// byCode: https://www.postgresql.org/docs/current/errcodes-appendix.html. An entry of two letters stands for all
// codes that begin with them.
var byCode = map[string]dberror.Class{
	"08":    dberror.Passes(""), // connection exceptions
	"25006": dberror.Passes("this server is read-only: a standby, or a failover is under way; the URL should name the primary"),
	"40001": dberror.Passes(""), // serialization failure
	"40P01": dberror.Passes(""), // deadlock: the other one went on
	"53100": dberror.Passes("the database server's disk is full: make room; it goes on by itself"),
	"53200": dberror.Passes("the database server is out of memory"),
	"53300": dberror.Passes("raise max_connections, or lower pool_max_conns in the URL"),
	"53":    dberror.Passes(""), // insufficient resources
	"55P03": dberror.Passes(""), // lock not available: lock_timeout
	"57014": dberror.Passes("statement_timeout of this user or database is too short"),
	"57P01": dberror.Passes(""), // admin shutdown: restarting
	"57P02": dberror.Passes(""), // crash shutdown
	"57P03": dberror.Passes(""), // cannot connect now: starting up
	"57P05": dberror.Passes(""), // idle session timeout
	"58030": dberror.Passes("the database server has trouble with its disk: see its log"),
	"28":    dberror.Lasts("check user and password in the URL, and pg_hba.conf"),
	"3D000": dberror.Lasts("create the database, or correct its name in the URL"),
	"42501": dberror.Lasts("the user needs the right to create a schema in the database, or to own the schema"),
	"42P01": dberror.Lasts("a table is missing: was the schema dropped? Restart to make it anew"),
	"3F000": dberror.Lasts("the schema is missing: was it dropped? Restart to make it anew"),
}

func classify(err error) dberror.Class {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		if c, ok := byCode[pg.Code]; ok {
			return c
		}
		return byCode[pg.Code[:min(2, len(pg.Code))]]
	}
	if errors.Is(err, context.Canceled) {
		return dberror.Class{}
	}
	if unreachable(err) {
		return dberror.Passes("is the database running, and can it be reached from here?")
	}
	return dberror.Class{Transient: broken(err)}
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
