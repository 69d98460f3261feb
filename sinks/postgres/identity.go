package postgres

import (
	"context"
	"fmt"
)

// Identity names the tables, wherever their server is found now.
func (s *Sink) Identity(ctx context.Context) (string, error) {
	var id string
	err := s.db.QueryRow(ctx, `select id from kubecdc_log.identity limit 1`).Scan(&id)
	if err != nil {
		return "", s.db.Fail("find out which log this is", err)
	}
	return fmt.Sprintf("postgres:%s/%s", schema, id), nil
}
