package pgdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// vanishedAfter is how long a host may acknowledge nothing that is sent to it, keepalives included, unless the URL says
// tcp_user_timeout (libpq's name, in milliseconds). TCP by itself repeats what it sends for a quarter of an hour, and waits for
// an answer for ever.
const vanishedAfter = 30 * time.Second

const userTimeout = "tcp_user_timeout"

// dial gives a function that makes connections which notice a host that vanishes. It takes the option out of the parameters,
// since the server would refuse it.
func (o Options) dial(params map[string]string) (pgconn.DialFunc, error) {
	limit := vanishedAfter
	if text, ok := params[userTimeout]; ok {
		delete(params, userTimeout)
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			hint := fmt.Sprintf("%s is %q: it should be a number of milliseconds", userTimeout, text)
			return nil, &urlError{setting: o.Setting, err: err, hint: hint}
		}
		if ms > 0 {
			limit = time.Duration(ms) * time.Millisecond
		}
	}
	d := &net.Dialer{
		// The first keepalive is sent after half of the time. The other side has the other half to acknowledge one.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: limit / 2, Interval: limit / 6, Count: 3},
		Control: func(network, _ string, conn syscall.RawConn) error {
			if !strings.HasPrefix(network, "tcp") {
				return nil
			}
			return setUserTimeout(conn, limit)
		},
	}
	return d.DialContext, nil
}

// A statement that writes or reads one batch, or a lease, is answered within a minute. It has one more second for each MB that it
// sends. Otherwise the server hangs, or it has vanished behind a pooler or a proxy, which keeps the connection alive.
var (
	answerTime    = time.Minute
	answeredBytes = 1 << 20 // a second
)

var errSilent = errors.New("no answer")

// WithDeadline runs a statement that sends so many bytes, and fails if it is not answered in time.
func (db *DB) WithDeadline(ctx context.Context, bytes int, run func(context.Context) error) error {
	limit := answerTime + time.Duration(bytes/answeredBytes)*time.Second
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := run(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return fmt.Errorf("%w within %s", errSilent, limit)
	}
	return err
}
