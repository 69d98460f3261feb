package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PgBouncer is a real pooler before a Postgres, for all of its databases. It lends its few connections in turn, so that the next
// statement of a client soon reaches another session.
type PgBouncer struct {
	Address string // 127.0.0.1:port
	Dir     string // folder of this instance: settings and log

	instance *instance
	proc     *process
}

// StartPgBouncer starts a pooler that pools by "transaction", "session" or "statement". It is ready when it returns.
func StartPgBouncer(ctx context.Context, p *Postgres, mode string) (*PgBouncer, error) {
	binary, err := findPgBouncer()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	i, err := newInstance(filepath.Dir(p.Dir), "pgbouncer")
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{Address: loopback(port), Dir: i.dir, instance: i}
	if err := errors.Join(b.configure(p, mode), p.user.give(i.dir)); err != nil {
		return nil, err
	}
	return b, launch(ctx, b, i, func(ctx context.Context) (err error) {
		b.proc, err = startProcess(command{name: "pgbouncer", path: binary, args: []string{i.path("pgbouncer.ini")},
			dir: i.dir, log: i.path("pgbouncer.log"), user: p.user}) // it refuses to run as root, as Postgres does
		if err != nil {
			return err
		}
		return b.proc.awaitReady(ctx, b.answers(p))
	})
}

func findPgBouncer() (string, error) {
	for _, path := range []string{os.Getenv("KUBECDC_PGBOUNCER"), "/usr/sbin/pgbouncer"} {
		if path != "" && exists(path) {
			return path, nil
		}
	}
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		return "", errors.New("no PgBouncer on this machine: " + howToInstall + ", or name it in KUBECDC_PGBOUNCER")
	}
	return path, nil
}

func (b *PgBouncer) configure(p *Postgres, mode string) error {
	settings := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = %s
default_pool_size = 3
server_round_robin = 1
max_client_conn = 500
`, portOf(p.Address), portOf(b.Address), b.instance.path("users.txt"), mode)
	return errors.Join(os.WriteFile(b.instance.path("pgbouncer.ini"), []byte(settings), 0o600),
		os.WriteFile(b.instance.path("users.txt"), fmt.Appendf(nil, "%q %q\n", postgresUser, postgresPassword), 0o600))
}

func (b *PgBouncer) answers(p *Postgres) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, p.URLAt(b.Address, postgresDatabase))
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}
}

// Stop stops the pooler and removes its folder.
func (b *PgBouncer) Stop() error {
	if !unregister(b) {
		return nil
	}
	return errors.Join(b.proc.stop(syscall.SIGINT), b.instance.close())
}

// installPgBouncer takes Debian's package. On other systems it must be installed.
func (i *installer) installPgBouncer(ctx context.Context) error {
	_, err := findPgBouncer()
	if err == nil {
		return nil
	}
	if aptErr := i.apt(ctx, "pgbouncer"); aptErr != nil {
		return fmt.Errorf("none installed, and none to be had: %w", aptErr)
	}
	_, err = findPgBouncer()
	return err
}
