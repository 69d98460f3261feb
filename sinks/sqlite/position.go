package sqlite

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// storedPosition is a position in log_batches: an array without the zeros at its end. Most batches have one change and one
// position, so each character counts.
type storedPosition struct {
	stream  int64
	version change.ResourceVersion
	ago     int64 // milliseconds before the batch was written
	marked  int   // 1 if the batch has a watermark that this position implies
	ended   change.Ended
}

// marks reports whether a control record is the watermark that a position implies.
func marks(c *change.Control, p *change.Position) bool {
	return c.Type == change.ControlWatermark && c.Stream == p.Stream && c.ResourceVersion == p.ResourceVersion &&
		c.TimeMs == p.Time.UnixMilli()
}

// MarshalJSON implements json.Marshaler.
func (p storedPosition) MarshalJSON() ([]byte, error) {
	all := []any{p.stream, storedVersion(p.version), p.ago, p.marked, p.ended}
	if p.ended == "" {
		all = all[:4]
		if p.marked == 0 {
			all = all[:3]
		}
	}
	return json.Marshal(all)
}

// storedPositions reads a list of positions.
func storedPositions(text []byte) (all []storedPosition, err error) {
	list := rawjson.New(text)
	for more := list.FirstElement(); more; more = list.NextElement() {
		var members [5]string
		position := rawjson.New(list.Skip())
		for i, more := 0, position.FirstElement(); more && i < len(members); more = position.NextElement() {
			members[i] = string(position.Skip())
			if members[i][0] == '"' {
				members[i], _ = rawjson.Text([]byte(members[i]))
			}
			i++
		}
		p := storedPosition{version: change.ResourceVersion(members[1]), ended: change.Ended(members[4])}
		var stream, ago, marked error
		p.stream, stream = strconv.ParseInt(members[0], 10, 64)
		p.ago, ago = strconv.ParseInt(members[2], 10, 64)
		p.marked, marked = strconv.Atoi(cmp.Or(members[3], "0"))
		if err = cmp.Or(err, stream, ago, marked); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	if !list.OK() {
		err = fmt.Errorf("%w: %q are no positions", ErrDamaged, text)
	}
	return all, err
}

// positions stores the positions that a batch sets, and returns them in their stored form.
func (l *slotLog) positions(t *tx, b *change.Batch, written int64) ([]storedPosition, error) {
	for i := range b.Controls {
		if err := l.beginStream(t, &b.Controls[i]); err != nil {
			return nil, err
		}
	}
	all := make([]storedPosition, 0, len(b.Positions))
	for i := range b.Positions {
		p := &b.Positions[i]
		row, err := l.stream(t, p.Stream)
		if err != nil {
			return nil, err
		}
		if p.Ended == change.EndedRemoved {
			err = t.do(`delete from log_positions where stream = ?`, row.id)
		} else {
			_, err = t.run(movePosition, row.id, string(p.ResourceVersion), p.Time.UnixMilli(), string(p.Ended))
		}
		if err != nil {
			return nil, err
		}
		all = append(all, storedPosition{row.id, p.ResourceVersion, written - p.Time.UnixMilli(), 0, p.Ended})
		if slices.ContainsFunc(b.Controls, func(c change.Control) bool { return marks(&c, p) }) {
			all[i].marked = 1
		}
	}
	return all, nil
}

// beginStream gives a stream an empty position when its first list begins, or when it is to be written again from the start.
func (l *slotLog) beginStream(t *tx, c *change.Control) error {
	lost := c.Type == change.ControlGap && c.Gap.Lost()
	if c.Type != change.ControlSnapshotBegin && !lost {
		return nil
	}
	row, err := l.stream(t, c.Stream)
	if err != nil {
		return err
	}
	if lost {
		if err := t.do(`delete from log_positions where stream = ?`, row.id); err != nil {
			return err
		}
		const recount = `update log_streams set objects = (select count(*) from log_objects where stream = ?1 and gone is null) where id = ?1`
		if err := t.do(recount, row.id); err != nil {
			return err
		}
	}
	return t.do(`insert into log_positions (stream, version, time, ended) values (?, '', ?, '') on conflict do nothing`, row.id,
		c.TimeMs)
}
