package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Before implements sinks.Memory: it reads what the cache lacks in one transaction.
func (l *slotLog) Before(ctx context.Context, changes []*change.Change, memory func(n int) []byte) error {
	l.release()
	missing := changes[:0:0]
	for _, c := range changes {
		of := l.streams[c.Stream.ID()]
		o, known := l.objects.Get(nameOf(c, of).key())
		if !known {
			missing = append(missing, c)
		} else if err := l.before(c, o, l.codecs[of.resource], memory); err != nil {
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

func (l *slotLog) before(c *change.Change, o *object, with codec, memory func(n int) []byte) error {
	err := l.unpack(o, with, memory)
	c.Before = o.last
	return err
}

func (l *slotLog) readBefore(t *tx, c *change.Change, memory func(n int) []byte) error {
	of, err := l.stream(t, c.Stream.ID())
	if err != nil {
		return err
	}
	with, err := l.codec(t, of.resource, c)
	if err != nil {
		return err
	}
	name := nameOf(c, of)
	o, err := l.find(t, name, name.key())
	if err != nil || o == nil {
		return err
	}
	l.objects.put(name.key(), o)
	return l.before(c, o, with, memory)
}

// Bodies implements sinks.Memory, by the file alone.
func (l *slotLog) Bodies(ctx context.Context, id change.StreamID, keys []string, visit func(key string, body []byte) error) error {
	r := l.reader
	fail := func(err error) error { return r.fail("read bodies of stream "+string(id), err) }
	var of struct {
		Stream   int64    `json:"stream"`
		Resource int64    `json:"resource"`
		Keys     []string `json:"keys"`
	}
	err := each(ctx, r.db, `select s.id, s.resource from`+ofCluster+`where s.stream = ?2`, []any{r.cluster, string(id)}, func(rows *sql.Rows) error {
		return rows.Scan(&of.Stream, &of.Resource)
	})
	if err != nil || of.Stream == 0 {
		return fail(err)
	}
	for _, key := range keys {
		of.Keys = append(of.Keys, storedKey(key))
	}
	text, _ := json.Marshal(&of) // numbers and texts: can't fail
	return fail(r.live(ctx, ofKeys, string(text), true, func(l *sinks.Logged) error {
		if l.After == nil {
			return nil
		}
		return visit(l.Change.Key(), l.After)
	}))
}
