package sqlite

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// In earlier releases the log could not return its own state. The file also had a checkpoint, in the tables positions, inventory,
// checkpoints and last_controls. At each start, the first two of them were updated to match the log.

// hasCheckpoint asks whether there is a checkpoint of this log for the cluster ?1.
const hasCheckpoint = `select exists (select 1 from ` + checkpointed + ` where exists (select 1 from positions where stream = t.id)
	or exists (select 1 from inventory where stream = t.id))`

const checkpointed = `clusters k join streams t on t.cluster = k.id and k.name = ?1
	and k.log = (select 'sqlite:' || id from log_identity)`

const itsStreams = `(select t.id from ` + checkpointed + `)`

// takeovers move what the log does not have into it, and remove the rest.
var takeovers = []string{
	// The inventory has the versions of updates that are not written. It may be older than the log.
	`with noted as (select o.id, i.resource_version as version,
			cast((select version from log_changes where object = o.id order by id desc limit 1) as text) as logged
		from ` + checkpointed + ` cross join inventory i on i.stream = t.id
		join log_clusters c on c.cluster = ?1 join log_resources r on r.cluster = c.id join log_streams s on s.resource = r.id and s.stream = t.name
		join log_objects o on o.resource = r.id and o.key = case instr(i.key, '/') when 0 then '/' || i.key else i.key end and o.uid = i.uid and o.gone is null)
	update log_objects set unwritten = noted.version from noted where noted.id = log_objects.id
		and (length(noted.version), noted.version) > (length(noted.logged), noted.logged)`,
	// A stream without a position was forgotten.
	`update log_positions set forgotten = true where ended <> '' and stream in (select s.id from` + ofCluster + `where not exists (
		select 1 from ` + checkpointed + ` join positions p on p.stream = t.id where t.name = s.stream))`,
	`insert into log_last_controls select s.id, l.type, l.control from` + ofCluster + `
		join streams t on t.name = s.stream and t.cluster = (select id from clusters where name = ?1) join last_controls l on l.stream = t.id
		where true on conflict do nothing`,
	`delete from inventory where stream in ` + itsStreams,
	`delete from last_controls where stream in ` + itsStreams,
	`delete from checkpoints where cluster = (select id from clusters where name = ?1)`,
	`delete from positions where stream in ` + itsStreams,
}

// TakeOver moves the checkpoint of an earlier release in the file into the log, once.
func (m *Memory) TakeOver(ctx context.Context, log *slog.Logger) error {
	r := m.reader
	fail := func(err error) error { return r.fail("take over the checkpoint of an earlier release", err) }
	var has bool
	if err := r.file.DB().QueryRowContext(ctx, hasCheckpoint, r.cluster).Scan(&has); err != nil || !has {
		return fail(err)
	}
	began := time.Now()
	tx, err := r.file.DB().BeginTx(ctx, nil)
	if err != nil {
		return fail(err)
	}
	defer tx.Rollback() // does nothing after a commit
	for _, statement := range takeovers {
		if _, err := tx.ExecContext(ctx, statement, r.cluster); err != nil {
			return fail(fmt.Errorf("%.50s…: %w", statement, err))
		}
	}
	if err := tx.Commit(); err != nil {
		return fail(err)
	}
	log.Info("the log remembers now itself what it has: what the checkpoint in its file had is taken over", "file", r.file.Path(),
		"took", time.Since(began).Round(time.Millisecond).String())
	return nil
}
