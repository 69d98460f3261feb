package postgres

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgtype"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/pack"
	"kubecdc/checkpoint/internal/positions"
	"kubecdc/internal/pgdb"
)

const commitBatch = `select kubecdc.commit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`

// commitTypes are the types of commitBatch's parameters.
var commitTypes = []uint32{
	pgtype.Int4OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Int8OID, pgtype.JSONBOID, pgtype.JSONBOID,
	pgtype.Int4ArrayOID, pgtype.TextArrayOID, pgtype.TimestamptzArrayOID, pgtype.TextArrayOID,
	pgtype.Int4ArrayOID, pgtype.TextArrayOID,
	pgtype.Int4ArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.ByteaArrayOID,
	pgtype.BoolOID,
}

// Commit sends the whole batch in one statement and one round trip: see commit_batch in the migrations.
func (s *Store) Commit(ctx context.Context, c checkpoint.Commit) error {
	answer, err := s.commit(ctx, c)
	if err == nil && answer == "ok" {
		return nil
	}
	return s.answered(fmt.Sprintf("commit batch %d of slot %d", c.Seq, c.Slot), answer, err)
}

// answered is what the answer of one of the functions in the migrations means.
func (s *Store) answered(op, answer string, err error) error {
	switch {
	case err != nil:
		return s.db.Fail(op, err)
	case answer == "fenced":
		return fmt.Errorf("%s: %w", op, checkpoint.ErrFenced)
	case answer == "behind":
		return fmt.Errorf("%s: %w", op, checkpoint.ErrBehind)
	}
	return nil
}

func (s *Store) commit(ctx context.Context, c checkpoint.Commit) (answer string, err error) {
	if err := s.bound(); err != nil {
		return "", err
	}
	ids, err := s.streamIDs(ctx, streamNames(c))
	if err != nil {
		return "", err
	}
	p := commitPool.Get().(*commitParams)
	defer commitPool.Put(p)
	p.fill(s.cluster.Load(), c, ids)
	return s.db.Call(ctx, commitBatch, append(p.values(), pgdb.Bool(s.relaxed)), commitTypes)
}

func streamNames(c checkpoint.Commit) []change.StreamID {
	names := make([]change.StreamID, 0, len(c.Positions)+len(c.Streams))
	for _, p := range c.Positions {
		names = append(names, p.Stream)
	}
	for _, s := range c.Streams {
		names = append(names, s.Stream)
	}
	return names
}

// commitParams are the parameters of commitBatch, as they go over the wire. They are used again and again, so that
// a commit allocates almost nothing.
type commitParams struct {
	cluster, slot, epoch, seq, offsets, positions    []byte
	positionStreams, positionVersions, positionTimes pgdb.Array
	positionEnds                                     pgdb.Array
	deleteStreams, deleteKeys                        pgdb.Array
	upsertStreams, upsertKeys, upsertUIDs            pgdb.Array
	upsertVersions, upsertBodies                     pgdb.Array
}

var commitPool = sync.Pool{New: func() any { return new(commitParams) }}

func (p *commitParams) fill(cluster int32, c checkpoint.Commit, ids map[change.StreamID]int32) {
	p.cluster = pgdb.AppendInt32(p.cluster[:0], cluster)
	p.slot = pgdb.AppendInt32(p.slot[:0], int32(c.Slot))
	p.epoch = pgdb.AppendInt64(p.epoch[:0], c.Epoch)
	p.seq = pgdb.AppendInt64(p.seq[:0], int64(c.Seq))
	p.offsets = pgdb.AppendJSONB(p.offsets[:0], flatten(c.Offsets).json())
	p.fillPositions(c.Positions, ids)
	p.fillDeletes(c.Streams, ids)
	p.fillUpserts(c.Streams, ids)
}

func (p *commitParams) fillPositions(list []change.Position, ids map[change.StreamID]int32) {
	p.positions = pgdb.AppendJSONB(p.positions[:0], positions.Encode(list))
	p.positionStreams.Reset(pgtype.Int4OID)
	p.positionVersions.Reset(pgtype.TextOID)
	p.positionTimes.Reset(pgtype.TimestamptzOID)
	p.positionEnds.Reset(pgtype.TextOID)
	for _, at := range list {
		p.positionStreams.Int32(ids[at.Stream])
		p.positionVersions.Text(string(at.ResourceVersion))
		p.positionTimes.Time(at.Time)
		p.positionEnds.Text(string(at.Ended))
	}
}

func (p *commitParams) fillDeletes(streams []checkpoint.StreamCommit, ids map[change.StreamID]int32) {
	p.deleteStreams.Reset(pgtype.Int4OID)
	p.deleteKeys.Reset(pgtype.TextOID)
	for _, s := range streams {
		id := ids[s.Stream]
		for _, key := range s.Deletes {
			p.deleteStreams.Int32(id)
			p.deleteKeys.Text(key)
		}
	}
}

func (p *commitParams) fillUpserts(streams []checkpoint.StreamCommit, ids map[change.StreamID]int32) {
	p.upsertStreams.Reset(pgtype.Int4OID)
	p.upsertKeys.Reset(pgtype.TextOID)
	p.upsertUIDs.Reset(pgtype.TextOID)
	p.upsertVersions.Reset(pgtype.TextOID)
	p.upsertBodies.Reset(pgtype.ByteaOID)
	for _, s := range streams {
		id := ids[s.Stream]
		for i := range s.Upserts {
			o := &s.Upserts[i]
			p.upsertStreams.Int32(id)
			p.upsertKeys.Text(o.Key)
			p.upsertUIDs.Text(o.UID)
			p.upsertVersions.Text(string(o.ResourceVersion))
			p.body(o.Body)
		}
	}
}

// body compresses straight into the parameter.
func (p *commitParams) body(body []byte) {
	if body == nil {
		p.upsertBodies.Null()
		return
	}
	p.upsertBodies.Append(func(dst []byte) []byte { return pack.Append(dst, body) })
}

// pageValues are the parameters of putPage.
func (p *commitParams) pageValues(page int) [][]byte {
	return append([][]byte{p.cluster, p.slot, p.epoch, pgdb.AppendInt32(nil, int32(page))}, p.objects()...)
}

func (p *commitParams) objects() [][]byte {
	return [][]byte{p.deleteStreams.Param(), p.deleteKeys.Param(),
		p.upsertStreams.Param(), p.upsertKeys.Param(), p.upsertUIDs.Param(), p.upsertVersions.Param(), p.upsertBodies.Param()}
}

func (p *commitParams) values() [][]byte {
	return append([][]byte{p.cluster, p.slot, p.epoch, p.seq, p.offsets, p.positions,
		p.positionStreams.Param(), p.positionVersions.Param(), p.positionTimes.Param(), p.positionEnds.Param()}, p.objects()...)
}
