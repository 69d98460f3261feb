package sqlite

import (
	"context"
	"fmt"

	"kubecdc/internal/sqlitefile"
)

// Clusters returns the names of the clusters that the log in a file is of.
func Clusters(ctx context.Context, path string) (names []string, err error) {
	file, err := sqlitefile.Share(ctx, path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var tables int
	if err = file.DB().QueryRowContext(ctx, `select count(*) from sqlite_schema where name = 'log_clusters'`).Scan(&tables); err == nil && tables > 0 {
		names, err = column[string](ctx, file.DB(), `select cluster from log_clusters order by cluster`)
	}
	if err == nil && len(names) == 0 {
		return nil, fmt.Errorf("%s has no log: exporter logs lists the files that have one", path)
	}
	return names, file.Fail("read whose log it is", err)
}
