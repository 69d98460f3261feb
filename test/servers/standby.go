package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

// Standby starts a server that follows p, through its Upstream: while that is cut, the standby falls behind. Promote makes it a
// server of its own. https://www.postgresql.org/docs/current/warm-standby.html
func (p *Postgres) Standby(ctx context.Context) (*Postgres, error) {
	s, err := p.standby(ctx)
	if err != nil {
		return nil, fmt.Errorf("start a standby of Postgres: %w", err)
	}
	return s, nil
}

func (p *Postgres) standby(ctx context.Context) (*Postgres, error) {
	s, err := newPostgres(p.opts)
	if err != nil {
		return nil, err
	}
	if s.Upstream, err = NewProxy(p.Address); err != nil {
		return nil, err
	}
	s.opts.Settings = maps.Clone(p.opts.Settings)
	if s.opts.Settings == nil {
		s.opts.Settings = map[string]string{}
	}
	s.opts.Settings["primary_conninfo"] = fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s sslmode=disable",
		portOf(s.Upstream.Address), postgresUser, postgresPassword)
	if err := p.backup(ctx); err != nil {
		return nil, err
	}
	data := s.instance.path("data")
	err = errors.Join(os.RemoveAll(data), os.Rename(p.instance.path("backup"), data), os.Chmod(data, 0o700),
		os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o600), p.user.give(data))
	if err != nil {
		return nil, err
	}
	return s, launch(ctx, s, s.instance, s.Start)
}

// Promote makes a standby a server that can be written to, with what it has got so far.
func (p *Postgres) Promote(ctx context.Context) error {
	if err := p.exec("select pg_promote()")(ctx); err != nil {
		return fmt.Errorf("promote the standby: %w", err)
	}
	return nil
}
