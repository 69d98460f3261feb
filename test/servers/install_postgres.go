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
	"syscall"
)

// postgresInstall is where Postgres is and where its data may be.
type postgresInstall struct {
	binaries string // folder of postgres and initdb
	base     string // folder that its user can reach: templates and instances
	template string // a data folder fresh from initdb
	user     *owner
}

// findPostgres fails with errNoPostgres if there is none. It then returns where one belongs.
func findPostgres(dir string) (*postgresInstall, error) {
	user, err := unprivileged()
	if err != nil {
		return nil, err
	}
	p := &postgresInstall{user: user}
	if p.base, err = postgresBase(dir, user); err != nil {
		return nil, err
	}
	if p.binaries, err = postgresBinaries(p.base); err != nil {
		return p, err
	}
	p.template = filepath.Join(p.base, "postgres-template-"+shortHash(p.binaries))
	return p, nil
}

func shortHash(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:8] }

// postgresBinaries is the folder of the newest Postgres of this machine, or of the one that Install put below base. Debian and
// others keep the server off PATH.
func postgresBinaries(base string) (string, error) {
	if named := os.Getenv("KUBECDC_POSTGRES_BIN"); named != "" {
		return named, nil
	}
	if askedPostgres() != "" {
		if bin := filepath.Join(base, fetchedPostgres(), "bin"); exists(bin) {
			return bin, nil
		}
		return "", errNoPostgres
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin/initdb",
		"/usr/pgsql-*/bin/initdb",
		"/opt/homebrew/opt/postgresql*/bin/initdb",
		"/usr/local/opt/postgresql*/bin/initdb",
		filepath.Join(base, fetchedPostgres(), "bin", "initdb"),
	} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return filepath.Dir(slices.Max(found)), nil
		}
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errNoPostgres
}

var errNoPostgres = errors.New("no Postgres server on this machine: " + howToInstall +
	", or name the folder of initdb in KUBECDC_POSTGRES_BIN")

func (i *installer) installPostgres(ctx context.Context) error {
	found, err := findPostgres(i.dir)
	if errors.Is(err, errNoPostgres) {
		if err := i.bringPostgres(ctx, found.base); err != nil {
			return fmt.Errorf("none installed, and none to be had from Maven Central: %w", err)
		}
		found, err = findPostgres(i.dir)
	}
	if err != nil {
		return err
	}
	if err := recordBase(i.dir, found.base); err != nil || exists(found.template) {
		return err
	}
	return i.step("initdb with "+found.binaries, func() error {
		return replaceDir(found.template, func(tmp string) error { return found.initdb(ctx, tmp) })
	})
}

// bringPostgres fetches Postgres into the folder of all servers, which is never removed, and copies it to base if that is another
// folder.
func (i *installer) bringPostgres(ctx context.Context, base string) error {
	fetched := filepath.Join(i.dir, fetchedPostgres())
	if !exists(fetched) {
		if err := i.fetchPostgres(ctx, fetched); err != nil {
			return err
		}
	}
	if base == i.dir {
		return nil
	}
	return replaceDir(filepath.Join(base, fetchedPostgres()), func(tmp string) error {
		return os.CopyFS(tmp, os.DirFS(fetched))
	})
}

// initdb fills a data folder. It asks for the sort order of a language, and does without where this Postgres was built without
// ICU.
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.user.credential()}
	return cmd
}
