package sqlite_test

import (
	"cmp"
	"path/filepath"
	"testing"

	"kubecdc/sinks/sqlite"
	"kubecdc/test/sinktest"
	"kubecdc/test/whoview"
)

// The view names a requester only if that is certain, as history does.
func TestTheViewNamesWhoIsCertain(t *testing.T) {
	file := own(t, filepath.Join(t.TempDir(), "log"))
	s := newSink(t, file, sqlite.Config{Cluster: sinktest.Name})
	r, err := sqlite.NewReader(t.Context(), file, sinktest.Name)
	must(t, err)
	whoview.Run(t, s, r, "changes_by", func(query string) (all []string, err error) {
		rows, err := file.DB().QueryContext(t.Context(), query)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() && err == nil {
			all = append(all, "")
			err = rows.Scan(&all[len(all)-1])
		}
		return all, cmp.Or(err, rows.Err())
	})
}
