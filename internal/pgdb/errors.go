package pgdb

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"kubecdc/internal/fault"
)

// Fail wraps err with what was tried on this database. It returns nil for nil.
func (db *DB) Fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fault.Database{Op: op, Where: db.where, Err: furthest(err),
		Hint: strings.NewReplacer("DATABASE", db.database, "USER", db.user).Replace(hint(err)), Gone: gone(err),
		Transient: transient(err)}
}

// hints are by error code: https://www.postgresql.org/docs/current/errcodes-appendix.html. Two digits stand for all codes that
// begin with them.
var hints = map[string]string{
	"25006": "no session may write: the server is a standby or fails over, and the URL should name the primary; or this role " +
		"or database has default_transaction_read_only",
	"53100": "the database server's disk is full: make room; it goes on by itself",
	"53200": "the database server is out of memory",
	"53300": "raise max_connections, or the connection limit of the role or database; or lower pool_max_conns in the URL",
	"57014": "statement_timeout of this user or database is too short",
	"58030": "the database server has trouble with its disk: see its log",
	"28":    "check user and password, in the URL or in the file of the password, and pg_hba.conf",
	"3D000": "create the database, or correct its name in the URL",
	"42501": "the user needs the right to create a schema: grant create on database DATABASE to USER; or, if the schema exists " +
		"(psql: \\dn), the rights of its owner: grant OWNER to USER",
	"23514": "a partition of the log is missing for this server's time: it is made when the slot is opened anew",
	"23503": "a row is missing that was there: were the tables emptied?",
	"55P03": "another session has the table for long: see pg_stat_activity for an old transaction",
	"42883": "a function is missing: was the schema dropped, or upgraded by a newer release?",
	"42P01": "a table is missing: was the schema dropped?",
	"42P07": "a table has this name already: if a partition of the log was detached, attach it again, or rename it",
	"3F000": "the schema is missing: was it dropped?",
}

// gone reports whether tables were dropped or emptied since the database was opened.
func gone(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "23503" || pg.Code == "42883" || pg.Code == "42P01" || pg.Code == "3F000")
}

// poolerHints are for PgBouncer's own errors, by a part of their text, since they all have the same code.
var poolerHints = []struct{ text, hint string }{
	{"unsupported startup parameter", "the pooler in between lets no session choose this: take it out of the URL, or set " +
		"it for " +
		"the role or database in Postgres, or name it in PgBouncer's ignore_startup_parameters"},
	{"statement pooling mode", "the pooler in between must pool by transaction or by session " +
		"(PgBouncer's pool_mode), not by statement"},
	{"query_wait_timeout", "the pooler in between has no connection to Postgres free: " +
		"raise its pool size, or see whether Postgres runs"},
	{"prepared statement", "a pooler that was not there at the start? " +
		"Restart the exporter, or put default_query_exec_mode=cache_describe in the URL"},
}

func hint(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		for _, p := range poolerHints {
			if strings.Contains(pg.Message, p.text) {
				return p.hint
			}
		}
		if text, ok := hints[pg.Code]; ok {
			return text
		}
		return hints[pg.Code[:min(2, len(pg.Code))]]
	}
	if text := tlsHint(err); text != "" {
		return text
	}
	if !errors.Is(err, context.Canceled) && unreachable(err) {
		return "is the database running, and can it be reached from here?"
	}
	return ""
}

// tlsHint is for a handshake that failed.
func tlsHint(err error) string {
	switch {
	case fault.Is[x509.UnknownAuthorityError](err):
		return "the file that sslrootcert in the URL names must hold the authority of the server's certificate"
	case fault.Is[x509.HostnameError](err):
		return "the server's certificate is for other names: put one of them into the URL as the host, or renew the certificate"
	case fault.Is[x509.CertificateInvalidError](err):
		return "renew the server's certificate, or check the clocks"
	case isAlert(err):
		return "the server refuses the client certificate: renew the files that sslcert and sslkey in the URL name; they are " +
			"read at each connect"
	case err != nil && strings.Contains(err.Error(), "server refused TLS connection"):
		return "the server speaks no TLS (ssl = off), which sslmode in the URL demands"
	}
	return ""
}

// isAlert reports that the other side has refused the handshake.
func isAlert(err error) bool {
	alert, ok := errors.AsType[*net.OpError](err)
	return ok && alert.Op == "remote error"
}

// transientCodes are the errors of a database that has no time or no room now, or is being started, stopped or failed over.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var transientCodes = []string{"08000", "08001", "08003", "08006", "25006", "40001", "40P01", "53",
	"55P03", "57P01", "57P02", "57P03", "58"}

// poolerWaits are parts of PgBouncer's errors while its Postgres is away or busy: it has one code for all.
var poolerWaits = []string{"server_login_retry", "server login has been failing", "cannot connect to server",
	"query_wait_timeout"}

// transient reports whether waiting may mend the failure. It does not mend a refused login or certificate, or a missing database.
func transient(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return slices.ContainsFunc(transientCodes, func(code string) bool { return strings.HasPrefix(pg.Code, code) }) ||
			slices.ContainsFunc(poolerWaits, func(text string) bool { return strings.Contains(pg.Message, text) })
	}
	return unreachable(err) || fault.Is[*net.OpError](err) && !isAlert(err) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
}

// unreachable reports whether no connection was made, or nobody is at its other end any more.
func unreachable(err error) bool {
	connect := fault.Is[*pgconn.ConnectError](err)
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH) || fault.Is[*net.DNSError](err) || errors.Is(err, errSilent) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ETIMEDOUT) || // pgx makes the first error of the second
		errors.Is(err, syscall.ENOENT) && connect || // the socket file
		connect && errors.Is(err, context.DeadlineExceeded)
}
