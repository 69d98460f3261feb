package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"kubecdc/internal/sqlitefile"
)

// BoundTo returns the name and the uid of the cluster that a file belongs to. Both are empty if it belongs to none yet.
func BoundTo(ctx context.Context, path string) (cluster, uid string, err error) {
	file, err := sqlitefile.Share(ctx, path)
	if err != nil {
		return "", "", err
	}
	defer file.Close()
	err = file.DB().QueryRowContext(ctx, `select name, coalesce(uid, '') from clusters order by id limit 1`).Scan(&cluster, &uid)
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", nil
	}
	return cluster, uid, file.Fail("read whose file it is", err)
}
