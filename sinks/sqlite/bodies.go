package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Before implements sinks.Memory. It reads what is not in the cache, in one transaction.
func (l *slotLog) Before(ctx context.Context, changes []*change.Change, memory func(n int) []byte) error {
	l.release()
	missing := changes[:0:0]
	for _, c := range changes {
		row := l.streams[c.Stream.ID()]
		o, known := l.objects.Get(nameOf(c, row).key())
		if !known {
			missing = append(missing, c)
		} else if err := l.before(c, o, l.codecs[row.resource], memory); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	err := l.sink.inTx(ctx, func(t *tx) error {
		for _, c := range missing {
			if err := l.readBefore(t, c, memory); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.forget()
	}
	return l.sink.file.Fail(fmt.Sprintf("read the bodies before the next batch of slot %d", l.slot), err)
}

func (l *slotLog) before(c *change.Change, o *object, coder codec, memory func(n int) []byte) error {
	err := l.unpack(o, coder, memory)
	c.Before = o.last
	return err
}

func (l *slotLog) readBefore(t *tx, c *change.Change, memory func(n int) []byte) error {
	row, err := l.stream(t, c.Stream.ID())
	if err != nil {
		return err
	}
	coder, err := l.codec(t, row.resource, c)
	if err != nil {
		return err
	}
	name := nameOf(c, row)
	o, err := l.find(t, name, name.key())
	if err != nil || o == nil {
		return err
	}
	l.objects.put(name.key(), o)
	return l.before(c, o, coder, memory)
}

// Bodies implements sinks.Memory. It reads the file only.
func (l *slotLog) Bodies(ctx context.Context, id change.StreamID, keys []string,
	visit func(key string, body []byte) error) error {
	r := l.reader
	fail := func(err error) error { return r.fail("read bodies of stream "+string(id), err) }
	var wanted struct {
		Stream   int64    `json:"stream"`
		Resource int64    `json:"resource"`
		Keys     []string `json:"keys"`
	}
	err := each(ctx, r.db, `select s.id, s.resource from`+ofCluster+`where s.stream = ?2`, []any{r.cluster, string(id)},
		func(rows *sql.Rows) error {
			return rows.Scan(&wanted.Stream, &wanted.Resource)
		})
	if err != nil || wanted.Stream == 0 {
		return fail(err)
	}
	for _, key := range keys {
		wanted.Keys = append(wanted.Keys, storedKey(key))
	}
	text, _ := json.Marshal(&wanted) // numbers and texts only: can't fail
	return fail(r.live(ctx, ofKeys, string(text), true, func(l *sinks.Logged) error {
		if l.After == nil {
			return nil
		}
		return visit(l.Change.Key(), l.After)
	}))
}
