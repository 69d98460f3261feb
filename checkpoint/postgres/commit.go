package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgtype"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

const commitBatch = `select commit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`

// commitTypes are the types of commitBatch's parameters.
var commitTypes = []uint32{
	pgtype.Int4OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Int8OID, pgtype.JSONBOID, pgtype.JSONBOID,
	pgtype.Int4ArrayOID, pgtype.TextArrayOID, pgtype.TimestamptzArrayOID,
	pgtype.Int4ArrayOID, pgtype.TextArrayOID,
	pgtype.Int4ArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.ByteaArrayOID,
}

var binaryFormat = []int16{1} // of all parameters

// Commit sends the whole batch in one statement and one round trip: see commit_batch in the migrations.
func (s *Store) Commit(ctx context.Context, c checkpoint.Commit) error {
	answer, err := s.commit(ctx, c)
	switch {
	case err != nil:
		return s.db.Fail(fmt.Sprintf("commit batch %d of slot %d", c.Seq, c.Slot), err)
	case answer == "fenced":
		return checkpoint.ErrFenced
	case answer == "stale":
		return fmt.Errorf("commit batch %d of slot %d: %w", c.Seq, c.Slot, checkpoint.ErrStale)
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
	return s.call(ctx, p.values())
}

func (s *Store) call(ctx context.Context, values [][]byte) (answer string, err error) {
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	result := conn.Conn().PgConn().ExecParams(ctx, commitBatch, values, commitTypes, binaryFormat, nil).Read()
	if result.Err != nil {
		return "", result.Err
	}
	if len(result.Rows) != 1 {
		return "", errors.New("commit_batch gave no answer")
	}
	return string(result.Rows[0][0]), nil
}

func streamNames(c checkpoint.Commit) []string {
	names := make([]string, 0, len(c.Positions)+len(c.Streams))
	for _, p := range c.Positions {
		names = append(names, p.Stream)
	}
	for _, s := range c.Streams {
		names = append(names, s.Stream)
	}
	return names
}

// commitParams are the parameters of commitBatch, as they go over the wire. They are used again and again, so that
// a commit allocates almost nothing: bodies are compressed straight into the parameter.
type commitParams struct {
	cluster, slot, epoch, seq, offsets, positions    []byte
	positionStreams, positionVersions, positionTimes array
	deleteStreams, deleteKeys                        array
	upsertStreams, upsertKeys, upsertUIDs            array
	upsertVersions, upsertBodies                     array
}

var commitPool = sync.Pool{New: func() any { return new(commitParams) }}

func (p *commitParams) fill(cluster int32, c checkpoint.Commit, ids map[string]int32) {
	p.cluster = appendInt32(p.cluster[:0], cluster)
	p.slot = appendInt32(p.slot[:0], int32(c.Slot))
	p.epoch = appendInt64(p.epoch[:0], c.Epoch)
	p.seq = appendInt64(p.seq[:0], int64(c.Seq))
	p.offsets = appendJSONB(p.offsets[:0], flatten(c.Offsets).json())
	p.fillPositions(c.Positions, ids)
	p.fillDeletes(c.Streams, ids)
	p.fillUpserts(c.Streams, ids)
}

func (p *commitParams) fillPositions(positions []change.Position, ids map[string]int32) {
	if positions == nil {
		positions = []change.Position{}
	}
	b, _ := json.Marshal(positions) // strings and times only: can't fail
	p.positions = appendJSONB(p.positions[:0], b)
	p.positionStreams.reset(pgtype.Int4OID)
	p.positionVersions.reset(pgtype.TextOID)
	p.positionTimes.reset(pgtype.TimestamptzOID)
	for _, at := range positions {
		p.positionStreams.int32(ids[at.Stream])
		p.positionVersions.text(at.ResourceVersion)
		p.positionTimes.time(at.Time)
	}
}

func (p *commitParams) fillDeletes(streams []checkpoint.StreamCommit, ids map[string]int32) {
	p.deleteStreams.reset(pgtype.Int4OID)
	p.deleteKeys.reset(pgtype.TextOID)
	for _, s := range streams {
		id := ids[s.Stream]
		for _, key := range s.Deletes {
			p.deleteStreams.int32(id)
			p.deleteKeys.text(key)
		}
	}
}

func (p *commitParams) fillUpserts(streams []checkpoint.StreamCommit, ids map[string]int32) {
	p.upsertStreams.reset(pgtype.Int4OID)
	p.upsertKeys.reset(pgtype.TextOID)
	p.upsertUIDs.reset(pgtype.TextOID)
	p.upsertVersions.reset(pgtype.TextOID)
	p.upsertBodies.reset(pgtype.ByteaOID)
	for _, s := range streams {
		id := ids[s.Stream]
		for i := range s.Upserts {
			o := &s.Upserts[i]
			p.upsertStreams.int32(id)
			p.upsertKeys.text(o.Key)
			p.upsertUIDs.text(o.UID)
			p.upsertVersions.text(o.ResourceVersion)
			p.upsertBodies.packed(o.Body)
		}
	}
}

func (p *commitParams) values() [][]byte {
	return [][]byte{p.cluster, p.slot, p.epoch, p.seq, p.offsets, p.positions,
		p.positionStreams.bytes(), p.positionVersions.bytes(), p.positionTimes.bytes(),
		p.deleteStreams.bytes(), p.deleteKeys.bytes(),
		p.upsertStreams.bytes(), p.upsertKeys.bytes(), p.upsertUIDs.bytes(), p.upsertVersions.bytes(), p.upsertBodies.bytes()}
}
