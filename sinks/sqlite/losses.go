package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/sinks"
)

// removedObjects says of each stream of a resource (empty: of all) that lacks objects what it lacks, as if somebody had removed rows.
func removedObjects(ctx context.Context, db queries, cluster, resource string) (map[change.StreamID]string, error) {
	const look = `select s.stream, s.objects, (select count(*) from log_objects where stream = s.id and gone is null)
		from log_clusters k join log_resources r on r.cluster = k.id join log_streams s on s.resource = r.id
		where k.cluster = ?1 and ?2 in ('', r.resource)`
	lost := map[change.StreamID]string{}
	return lost, each(ctx, db, look, []any{cluster, resource}, func(rows *sql.Rows) error {
		var stream change.StreamID
		var known, found int64
		if err := rows.Scan(&stream, &known, &found); err != nil || known == found {
			return err
		}
		lost[stream] = fmt.Sprintf("rows were removed from the table log_objects: it has %d of %s, and all batches together have written %d",
			found, stream, known)
		return nil
	})
}

func lossOf(objects map[change.StreamID]string) *sinks.LostTailError {
	if len(objects) == 0 {
		return nil
	}
	return &sinks.LostTailError{TailRead: true, Reason: strings.Join(slices.Sorted(maps.Values(objects)), "; "),
		Gone: func(s change.StreamID) bool { return objects[s] != "" }}
}

// losses returns what the tables have lost; nil: nothing that is known of.
func (l *slotLog) losses(ctx context.Context) (*sinks.LostTailError, error) {
	objects, err := removedObjects(ctx, l.sink.file.DB(), l.sink.Cluster, "")
	return lossOf(objects), err
}

// prove looks for losses with a batch that has proofs.
func (l *slotLog) prove(ctx context.Context, b *change.Batch) error {
	objects := map[change.StreamID]string{}
	for i := range b.Controls {
		if b.Controls[i].Type != change.ControlProof {
			continue
		}
		lost, err := removedObjects(ctx, l.sink.file.DB(), l.sink.Cluster, change.ResourceOf(b.Controls[i].Stream).ID())
		if err != nil {
			return l.sink.file.Fail("count the objects of the log", err)
		}
		maps.Copy(objects, lost)
	}
	if loss := lossOf(objects); loss != nil {
		return loss
	}
	return nil
}

// Lost counts as the owner does.
func (r *Reader) Lost(ctx context.Context, resource string) (string, error) {
	objects, err := removedObjects(ctx, r.db, r.cluster, resource)
	if err != nil {
		return "", r.fail("find out whether the log has lost anything", err)
	}
	if loss := lossOf(objects); loss != nil {
		return sinks.Unrecorded("%s", loss.Reason), nil
	}
	return "", nil
}
