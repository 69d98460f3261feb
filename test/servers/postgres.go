package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// PostgresOptions are all optional.
type PostgresOptions struct {
	Fsync    bool              // slower: without it a kill -9 still loses nothing, only a crash of the machine would
	Settings map[string]string // more settings, as in postgresql.conf
	TLS      bool              // speaks TLS too, and the role client logs in by its certificate
}

// The role that owns everything, and the first database.
const (
	postgresUser     = "kubecdc"
	postgresPassword = "secret-pw"
	postgresDatabase = "kubecdc"
)

// Postgres is one real server. Its databases sort text by the rules of a language if the build allows it (ICU, en-US), as most in
// production do. So an order that must be bytewise has to ask for it.
type Postgres struct {
	URL     string // URL of a superuser, to the database kubecdc
	Address string // 127.0.0.1:port, a Proxy's target
	Dir     string // folder of this instance: data and log

	CACertFile, ClientCertFile, ClientKeyFile string // with PostgresOptions.TLS

	Upstream *Proxy // leads a standby to the server that it follows

	opts     PostgresOptions
	ca       *authority
	binaries string
	user     *owner
	instance *instance
	proc     *process
}

// StartPostgres starts a server on a free loopback port, which it keeps over restarts. It is ready when it returns. As root it
// runs as the user postgres or nobody.
func StartPostgres(ctx context.Context, opts PostgresOptions) (*Postgres, error) {
	p, err := newPostgres(opts)
	if err != nil {
		return nil, err
	}
	return p, launch(ctx, p, p.instance, p.Start)
}

func newPostgres(opts PostgresOptions) (*Postgres, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	found, err := findPostgres(dir)
	if err != nil {
		return nil, err
	}
	if !exists(found.template) {
		return nil, fmt.Errorf("start Postgres: %s is missing: %s", found.template, howToInstall)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	i, err := newInstance(found.base, "postgres")
	if err != nil {
		return nil, err
	}
	p := &Postgres{Dir: i.dir, Address: loopback(port), opts: opts, binaries: found.binaries, user: found.user, instance: i}
	p.URL = p.URLAt(p.Address, postgresDatabase)
	if err := p.copyTemplate(found.template); err != nil {
		return nil, err
	}
	return p, p.certify()
}

func (p *Postgres) copyTemplate(template string) error {
	data := p.instance.path("data")
	if err := os.CopyFS(data, os.DirFS(template)); err != nil {
		return fmt.Errorf("prepare Postgres' data folder: %w", err)
	}
	if err := os.Chmod(data, 0o700); err != nil {
		return fmt.Errorf("prepare Postgres' data folder: %w", err)
	}
	return p.user.give(data)
}

// URLAt is the superuser's access to a database by another address, e.g. a Proxy's.
func (p *Postgres) URLAt(address, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(postgresUser, postgresPassword),
		Host:     address,
		Path:     database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

func (p *Postgres) args() []string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(portOf(p.Address)),
		"unix_socket_directories": "",
		"max_connections":         "200",
		"search_path":             "public", // without "$user": the role is called as a schema is, and statements must name theirs
	}
	if !p.opts.Fsync {
		settings["fsync"], settings["full_page_writes"] = "off", "off"
	}
	maps.Copy(settings, p.tlsSettings())
	maps.Copy(settings, p.opts.Settings)
	args := []string{"-D", p.instance.path("data")}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// Start starts the server after a kill or stop, with the data it had.
func (p *Postgres) Start(ctx context.Context) error {
	for {
		err := p.startOnce(ctx)
		// After a kill -9 of the first process its children take a moment to notice. Until then their shared memory prevents that the
		// next one starts.
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "shared memory block") {
			return err
		}
	}
}

func (p *Postgres) startOnce(ctx context.Context) (err error) {
	p.proc, err = startProcess(command{
		name: "postgres",
		path: filepath.Join(p.binaries, "postgres"),
		args: p.args(),
		dir:  p.instance.dir,
		log:  p.instance.path("postgres.log"),
		user: p.user,
	})
	if err != nil {
		return err
	}
	return p.proc.awaitReady(ctx, p.exec("select 1"))
}

func (p *Postgres) exec(sql string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, p.URL)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, sql)
		return err
	}
}

// CreateDatabase makes an empty database and returns its URL.
func (p *Postgres) CreateDatabase(ctx context.Context, name string) (string, error) {
	conn, err := pgx.Connect(ctx, p.URL)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	if err := createDatabase(ctx, conn, name); err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}
	return p.URLAt(p.Address, name), nil
}

// createDatabase copies files, which takes a third of what Postgres does by default, where nothing is fsynced.
func createDatabase(ctx context.Context, conn *pgx.Conn, name string) error {
	create := "create database " + pgx.Identifier{name}.Sanitize()
	_, err := conn.Exec(ctx, create+" strategy file_copy")
	if refused := new(pgconn.PgError); errors.As(err, &refused) && refused.Code == "42601" { // before Postgres 15
		_, err = conn.Exec(ctx, create)
	}
	return err
}

func (p *Postgres) DropDatabase(ctx context.Context, name string) error {
	if err := p.exec("drop database if exists " + pgx.Identifier{name}.Sanitize() + " with (force)")(ctx); err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

// Restart ends all sessions and the server (SIGINT, "fast"), and starts it again.
func (p *Postgres) Restart(ctx context.Context) error {
	if err := p.proc.stop(syscall.SIGINT); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Kill is kill -9.
func (p *Postgres) Kill() { p.proc.kill() }

// Stop ends the server without a checkpoint (SIGQUIT, "immediate"), and removes its folder.
func (p *Postgres) Stop() error {
	if !unregister(p) {
		return nil
	}
	if p.Upstream != nil {
		p.Upstream.Close()
	}
	return errors.Join(p.proc.stop(syscall.SIGQUIT), p.instance.close())
}
