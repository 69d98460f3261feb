package pgdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"kubecdc/internal/fault"
)

// parse reads the URL. No search_path is sent: poolers refuse it as a start-up parameter, or forget it, and then tables
// would be looked for, and made, in public. Statements name the schema.
func parse(o Options) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	switch {
	case fault.Is[*fs.PathError](err):
		return nil, o.unreadable(err)
	case err != nil:
		return nil, &urlError{setting: o.Setting, err: err}
	}
	if config.ConnConfig.ConnectTimeout == 0 || config.ConnConfig.ConnectTimeout > connectTimeout {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	params := config.ConnConfig.RuntimeParams
	delete(params, "search_path")
	if params["application_name"] == "" {
		params["application_name"] = "kubecdc"
	}
	if config.ConnConfig.DialFunc, err = o.dial(params); err != nil {
		return nil, err
	}
	config.MaxConns = max(config.MaxConns, o.MaxConns)
	config.BeforeConnect = o.renew
	return config, nil
}

// renew runs before each connection. It reads again what may have changed since the start: the password's file, and the files
// that the URL names (passfile, sslcert, sslkey, sslrootcert).
func (o Options) renew(_ context.Context, c *pgx.ConnConfig) error {
	fresh, err := pgconn.ParseConfig(o.URL)
	if err != nil {
		return o.unreadable(err)
	}
	c.Password, c.TLSConfig, c.Fallbacks = fresh.Password, fresh.TLSConfig, fresh.Fallbacks
	if o.PasswordFile == "" {
		return nil
	}
	text, err := os.ReadFile(o.PasswordFile)
	if err != nil {
		return fmt.Errorf("read %s_PASSWORD_FILE: %w", o.Setting, err)
	}
	if c.Password = strings.TrimRight(string(text), "\r\n"); c.Password == "" {
		return fmt.Errorf("read %s_PASSWORD_FILE: %s is empty", o.Setting, o.PasswordFile)
	}
	return nil
}

// unreadable gives the error for a URL that could be read at the start: the fault is in one of its files.
func (o Options) unreadable(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("read a file that the URL in %s names: %w", o.Setting, file)
	}
	return fmt.Errorf("the certificates that the URL in %s names can't be read: sslcert, sslkey or sslrootcert", o.Setting)
}

// first makes a connection outside the pool. It prepares no statement, since there may be a pooler in between.
func first(ctx context.Context, config *pgx.ConnConfig, o Options) (*pgx.Conn, error) {
	config = config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if err := o.renew(ctx, config); err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, config)
}

// pooled reports whether there is a pooler in between: the process that the server named when the connection was made is then not
// the one that answers.
func pooled(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid uint32
	err := conn.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid)
	return pid != conn.PgConn().PID(), err
}
