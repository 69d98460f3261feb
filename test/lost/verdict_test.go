package lost

import (
	"slices"
	"strings"

	"kubecdc/test/servers"
)

// report is what a record reports: the object's key, namespace/name, at a version.
type report struct {
	key     string
	version int64
	deleted bool
}

// verdict compares a program's reports with etcd's own history.
type verdict struct {
	Changes, Lost, Deletes, Missed, Repeated int
	Says                                     string // what is lost, or empty
}

// judge counts the changes of etcd's history that no report has. A deletion counts as reported if the record has any version of the
// object's last life. A deletion that was found by comparing lists has no version of its own.
func judge(history []servers.EtcdEvent, prefix string, reports []report) (v verdict) {
	seen := map[report]bool{}
	deletions := map[string][]int64{} // by key
	for _, r := range reports {
		if seen[r] {
			v.Repeated++
			continue
		}
		seen[r] = true
		if r.deleted {
			deletions[r.key] = append(deletions[r.key], r.version)
		}
	}
	ended := map[string]int64{} // where the life before ended
	for _, e := range history {
		key := strings.TrimPrefix(e.Key, prefix)
		v.Changes++
		if e.Op != "d" {
			if !seen[report{key, e.Revision, false}] {
				v.Lost++
			}
			continue
		}
		v.Deletes++
		if !slices.ContainsFunc(deletions[key], func(deleted int64) bool { return deleted > ended[key] && deleted <= e.Revision }) {
			v.Lost, v.Missed = v.Lost+1, v.Missed+1
		}
		ended[key] = e.Revision
	}
	return v
}
