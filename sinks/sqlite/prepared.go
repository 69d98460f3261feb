package sqlite

import (
	"context"
	"database/sql"
	"sync"
)

// prepared prepares each statement once. A reader runs a few statements very often, and preparing one takes as long as running
// it.
type prepared struct {
	db    *sql.DB
	mu    sync.Mutex
	texts map[string]*sql.Stmt
}

// QueryContext implements queries.
func (p *prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.texts[query], error(nil)
	if s == nil {
		if s, err = p.db.PrepareContext(ctx, query); err != nil {
			return nil, err
		}
		p.texts[query] = s
	}
	return s.QueryContext(ctx, args...) //nolint:sqlclosecheck // close closes the statements, callers the rows
}

func (p *prepared) close() {
	for _, s := range p.texts {
		_ = s.Close()
	}
}
