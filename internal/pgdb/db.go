// Package pgdb is the common part of the Postgres checkpoint store and the Postgres sink. It connects, brings a schema up to
// date, calls functions with a batch of rows, and says what to do about errors. It does not know the contents of the tables.
package pgdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"kubecdc/internal/dependency"
)

// connectTimeout bounds one attempt to connect, unless the URL says connect_timeout.
const connectTimeout = 10 * time.Second

// DB is a pool of connections. Statements name the schema: it is in no connection's search_path.
type DB struct {
	*pgxpool.Pool
	where          string
	database, user string // as identifiers
}

type Options struct {
	URL          string // postgres://user:password@host:port/database?…, as libpq reads it
	PasswordFile string // read at each connect, in place of the URL's password, unless empty
	Schema       string // made when it does not exist
	Migrations   fs.FS  // SQL files by number, in the folder migrations
	ReadOnly     bool   // the schema is taken as it is, unless a newer release has made it
	Setting      string // the name of the setting that URL was given in, for error texts. The file's is SETTING_PASSWORD_FILE
	MaxConns     int32  // unless the URL says pool_max_conns
	Later        bool   // Open does not connect: the first connection brings the schema up to date
}

// Open connects and brings the schema up to date. The password is in none of its errors.
func Open(ctx context.Context, o Options) (*DB, error) {
	config, err := parse(o)
	if err != nil {
		return nil, err
	}
	db := &DB{where: where(config.ConnConfig, o.Schema), database: pgx.Identifier{config.ConnConfig.Database}.Sanitize(),
		user: pgx.Identifier{config.ConnConfig.User}.Sanitize()}
	if o.Later {
		config.BeforeConnect = db.preparing(config.ConnConfig, o)
	} else if err := db.prepare(ctx, config.ConnConfig, o); err != nil {
		return nil, db.Fail(o.step(), err)
	}
	if db.Pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, db.Fail("open", err)
	}
	return db, nil
}

func (o *Options) step() string {
	if o.ReadOnly {
		return "open"
	}
	return "bring the schema up to date"
}

// prepare brings the schema up to date, and chooses how the pool's connections run statements. Behind a pooler by transaction the
// next transaction may be on another connection, which does not know what was prepared on this one. So each statement is sent
// completely.
func (db *DB) prepare(ctx context.Context, config *pgx.ConnConfig, o Options) error {
	conn, err := first(ctx, config, o)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := verifyPinned(ctx, conn); err != nil {
		return err
	}
	hasPooler, err := pooled(ctx, conn)
	if err != nil {
		return err
	}
	if hasPooler && config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if o.ReadOnly {
		return refuseNewer(ctx, conn, o)
	}
	return migrate(ctx, conn, o)
}

// preparing returns a function that is called before each connection, and prepares the database once. While the preparation takes
// long, the function returns an error.
func (db *DB) preparing(config *pgx.ConnConfig, o Options) func(context.Context, *pgx.ConnConfig) error {
	var attempts singleflight.Group
	var began atomic.Int64 // Unix time of the last attempt
	var isPrepared atomic.Bool
	prepare := func() (any, error) {
		if isPrepared.Load() { // by an earlier connection
			return nil, nil
		}
		began.Store(time.Now().Unix())
		step := dependency.Step{Awaited: "the database", Limit: prepareTimeout, Upgrades: true}
		err := dependency.Once(context.Background(), step, func(ctx context.Context) error { return db.prepare(ctx, config, o) })
		isPrepared.Store(err == nil)
		return nil, err
	}
	began.Store(time.Now().Unix())
	return func(ctx context.Context, c *pgx.ConnConfig) error {
		select {
		case attempt := <-attempts.DoChan("", prepare):
			if attempt.Err != nil {
				return attempt.Err
			}
		case <-time.After(prepareSlow):
			return fmt.Errorf("connecting, and bringing the tables up to date if an older release has made them, takes long: "+
				"it began at %s",
				time.Unix(began.Load(), 0).UTC().Format(time.RFC3339))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		c.DefaultQueryExecMode = config.DefaultQueryExecMode
		return o.renew(ctx, c)
	}
}

const (
	prepareTimeout = 30 * time.Second // without the time to bring tables up to date
	prepareSlow    = 5 * time.Second
)

// Where names the database and the schema, without the password.
func (db *DB) Where() string { return db.where }

func where(c *pgx.ConnConfig, schema string) string {
	host := c.Host
	if len(host) > 0 && host[0] != '/' {
		host = net.JoinHostPort(host, strconv.Itoa(int(c.Port)))
	}
	return fmt.Sprintf("postgres://%s@%s/%s (schema %s)", c.User, host, c.Database, schema)
}

// urlError is for a URL that can't be read. The parser's own text quotes the URL and hides what it takes for the password. In a
// malformed URL that is a guess, so the text is left out.
type urlError struct {
	setting string
	err     error
	hint    string // which option is wrong; empty: all of it
}

func (e *urlError) Error() string {
	if e.hint != "" {
		return fmt.Sprintf("the URL in %s is wrong: %s", e.setting, e.hint)
	}
	return fmt.Sprintf("the URL in %s is not one that Postgres clients can read: it should be "+
		"postgres://user:password@host:5432/database, with special characters in the password written as %%XX", e.setting)
}

// Is lets tests and callers tell it from failures to connect.
func (e *urlError) Is(target error) bool { return target == ErrURL }

// ErrURL means that the URL can't be parsed. Its cause is withheld, since it may quote the password.
var ErrURL = errors.New("malformed Postgres URL")
