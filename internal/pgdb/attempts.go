package pgdb

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// attempts is the error of a failed connection. Its text has the errors of the attempts that give a reason.
type attempts struct {
	err     error // all of them
	reasons []error
}

func (a *attempts) Error() string {
	return "connect: " + strings.Join(strings.Split(errors.Join(a.reasons...).Error(), "\n"), "; ")
}

func (a *attempts) Unwrap() error { return a.err }

// furthest leaves out the attempts with TLS that a server without TLS refused: with sslmode=prefer, the default, an attempt
// without TLS follows, which got further.
func furthest(err error) error {
	connect, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return err
	}
	all, ok := connect.Unwrap().(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	reasons := slices.DeleteFunc(slices.Clone(all.Unwrap()), refusedTLS)
	if len(reasons) == 0 {
		reasons = all.Unwrap()
	}
	return &attempts{err: err, reasons: reasons}
}

func refusedTLS(err error) bool {
	return strings.Contains(err.Error(), "server refused TLS connection")
}
