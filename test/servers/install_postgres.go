package servers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// postgresInstall is where Postgres is and where its data may be.
type postgresInstall struct {
	binaries string // folder of postgres and initdb
	base     string // folder that its user can reach: templates and instances
	template string // a data folder fresh from initdb
	user     *owner
}

func findPostgres(dir string) (*postgresInstall, error) {
	binaries, err := postgresBinaries()
	if err != nil {
		return nil, err
	}
	user, err := unprivileged()
	if err != nil {
		return nil, err
	}
	base := dir
	if !user.canReach(dir) {
		// E.g. a checkout below /root: its user cannot get there.
		base = filepath.Join(os.TempDir(), fmt.Sprintf("kubecdc-postgres-%x", sha256.Sum256([]byte(dir)))[:26])
	}
	name := fmt.Sprintf("postgres-template-%x", sha256.Sum256([]byte(binaries)))[:26]
	return &postgresInstall{binaries: binaries, base: base, template: filepath.Join(base, name), user: user}, nil
}

// postgresBinaries is the newest Postgres of this machine. Debian and others
// keep the server off PATH.
func postgresBinaries() (string, error) {
	if dir := os.Getenv("KUBECDC_POSTGRES_BIN"); dir != "" {
		return dir, nil
	}
	var found []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin/initdb",
		"/usr/pgsql-*/bin/initdb",
		"/opt/homebrew/opt/postgresql*/bin/initdb",
		"/usr/local/opt/postgresql*/bin/initdb",
	} {
		paths, _ := filepath.Glob(pattern)
		found = append(found, paths...)
	}
	if len(found) > 0 {
		return filepath.Dir(slices.Max(found)), nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errors.New("no Postgres server: initdb is neither on PATH nor in /usr/lib/postgresql (KUBECDC_POSTGRES_BIN can name its folder)")
}

func (i *installer) installPostgres(ctx context.Context) error {
	found, err := findPostgres(i.dir)
	if err != nil {
		return err
	}
	if exists(found.template) {
		return nil
	}
	return i.step("initdb with "+found.binaries, func() error {
		return replaceDir(found.template, func(tmp string) error { return found.initdb(ctx, tmp) })
	})
}

// initdb fills a data folder. It asks for the sort order of a language, and
// does without where this Postgres was built without ICU.
func (p *postgresInstall) initdb(ctx context.Context, data string) error {
	err := p.initdbWith(ctx, data, "--locale-provider=icu", "--icu-locale=en-US")
	if err != nil {
		err = p.initdbWith(ctx, data)
	}
	if err != nil {
		return err
	}
	return p.createDatabase(ctx, data)
}

func (p *postgresInstall) initdbWith(ctx context.Context, data string, more ...string) error {
	password := filepath.Join(filepath.Dir(data), ".password")
	if err := os.WriteFile(password, []byte(postgresPassword), 0o644); err != nil {
		return err
	}
	defer os.Remove(password)
	if err := errors.Join(os.RemoveAll(data), os.Mkdir(data, 0o700), p.user.give(data)); err != nil {
		return err
	}
	args := append([]string{"-D", data, "--username=" + postgresUser, "--pwfile=" + password,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"}, more...)
	return run(p.command(ctx, "initdb", args...))
}

// createDatabase uses the server's single-user mode: no port, no waiting.
func (p *postgresInstall) createDatabase(ctx context.Context, data string) error {
	cmd := p.command(ctx, "postgres", "--single", "-D", data, "postgres")
	cmd.Stdin = strings.NewReader("create database " + postgresDatabase + "\n")
	return run(cmd)
}

func (p *postgresInstall) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.binaries, name), args...)
	cmd.Dir = p.base
	cmd.SysProcAttr = processAttributes(p.user)
	return cmd
}
