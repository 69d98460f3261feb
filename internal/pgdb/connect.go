package pgdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"kubecdc/internal/fault"
)

// parse reads the URL. No search_path is sent, since poolers refuse it as a start-up parameter, or forget it. Tables would then
// be searched, and made, in public. Statements name the schema.
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
	maps.DeleteFunc(params, func(name, _ string) bool { return pinned[strings.ToLower(name)] != "" }) // TimeZone is timezone
	maps.Copy(params, pinned)
	if params["application_name"] == "" {
		params["application_name"] = "kubecdc"
	}
	if config.ConnConfig.DialFunc, err = o.dial(params); err != nil {
		return nil, err
	}
	if !o.says("pool_max_conns") {
		config.MaxConns = max(config.MaxConns, o.MaxConns)
	} else if config.MaxConns < leastConns {
		return nil, &urlError{setting: o.Setting, hint: fmt.Sprintf("pool_max_conns=%d is less than the %d that are needed",
			config.MaxConns, leastConns)}
	}
	if mode := config.ConnConfig.DefaultQueryExecMode; mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol {
		return nil, &urlError{setting: o.Setting, hint: "default_query_exec_mode=exec and =simple_protocol don't tell the " +
			"types of arrays, which " +
			"batches are written as: leave it out, or take cache_describe, which does for poolers"}
	}
	config.BeforeConnect = o.renew
	return config, nil
}

// leastConns is how many connections of a pool there must be: some statements are run while the rows of another one are read.
const leastConns = 2

// says reports whether the URL, or the words in its place, set an option.
func (o Options) says(option string) bool { return strings.Contains(o.URL, option+"=") }

// pinned are the settings of a session that texts and dates depend on: a role or a database may have others. Poolers know these,
// and give each client what it has asked for.
var pinned = map[string]string{"client_encoding": "UTF8", "datestyle": "ISO, MDY", "timezone": "UTC",
	"standard_conforming_strings": "on"}

// verifyPinned reports a session that is not as it was asked for, and a database that can't hold all texts.
func verifyPinned(ctx context.Context, conn *pgx.Conn) error {
	names := slices.Sorted(maps.Keys(pinned))
	rows, err := conn.Query(ctx, "select name, current_setting(name) from unnest($1::text[]) name",
		append(names, "server_encoding"))
	if err != nil {
		return err
	}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		switch want := pinned[name]; {
		case name == "server_encoding" && value != "UTF8":
			return fmt.Errorf("the database's encoding is %s: make one with encoding UTF8", value)
		case want != "" && value != want:
			return fmt.Errorf("the session has %s %q although %q was asked for: a pooler in between does not pass it on; "+
				"alter role … set %s = '%s'", name, value, want, name, want)
		}
		return nil
	})
	return err
}

// renew runs before each connection. It reads again what may have changed since the start: the password's file, and the files
// that the URL names (passfile, sslcert, sslkey, sslrootcert).
func (o Options) renew(_ context.Context, c *pgx.ConnConfig) error {
	fresh, err := pgconn.ParseConfig(o.URL)
	if err != nil {
		return o.unreadable(err)
	}
	c.Password = fresh.Password
	trust(c.TLSConfig, fresh.TLSConfig)
	for i := range min(len(c.Fallbacks), len(fresh.Fallbacks)) { // these are of the same URL
		trust(c.Fallbacks[i].TLSConfig, fresh.Fallbacks[i].TLSConfig)
	}
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

// trust has the connection trust the authorities that fresh does. Client certificates pgx reads again by itself, unless TLSConfig
// is replaced.
func trust(c, fresh *tls.Config) {
	if c != nil && fresh != nil {
		c.RootCAs, c.VerifyPeerCertificate, c.VerifyConnection =
			fresh.RootCAs, fresh.VerifyPeerCertificate, fresh.VerifyConnection
	}
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

// pooled reports whether there is a pooler between this process and the server. The process that the server named when the
// connection was made is then not the one that answers.
func pooled(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid uint32
	err := conn.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid)
	return pid != conn.PgConn().PID(), err
}
