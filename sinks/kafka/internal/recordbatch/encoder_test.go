package recordbatch_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/protocol"

	"kubecdc/sinks/kafka/internal/recordbatch"
	"kubecdc/test/require"
)

// decoded is a record as a consumer gets it.
type decoded struct {
	offset     int64
	time       int64
	key, value []byte // value is nil in a tombstone
	headers    map[string]string
}

// decode reads a record set as kafka-go does when it consumes.
func decode(t *testing.T, set []byte) (*protocol.RecordBatch, []decoded) {
	t.Helper()
	var rs protocol.RecordSet
	if _, err := rs.ReadFrom(bytes.NewBuffer(set)); err != nil {
		t.Fatalf("decode: %v", err)
	}
	b := rs.Records.(*protocol.RecordStream).Records[0].(*protocol.RecordBatch)
	var all []decoded
	for {
		r, err := b.ReadRecord()
		if err == io.EOF {
			return b, all
		}
		must(t, err)
		d := decoded{offset: r.Offset, time: r.Time.UnixMilli(), key: read(t, r.Key), value: read(t, r.Value), headers: map[string]string{}}
		for _, h := range r.Headers {
			d.headers[h.Key] = string(h.Value)
		}
		all = append(all, d)
	}
}

func read(t *testing.T, b protocol.Bytes) []byte {
	t.Helper()
	if b == nil {
		return nil
	}
	all, err := protocol.ReadAll(b)
	must(t, err)
	return all
}

func TestRecordBatchRoundTrip(t *testing.T) {
	for _, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(name, func(t *testing.T) {
			codec, err := recordbatch.NewCodec(name)
			must(t, err)
			e := recordbatch.NewEncoder(codec)
			for round := range 3 { // buffers are reused
				e.Reset()
				var want []decoded
				for i := range 50 {
					f := decoded{offset: int64(i), key: fmt.Append(nil, "key-", i), headers: map[string]string{"a": strings.Repeat("h", i*5), "é": ""}}
					f.time = 1_700_000_000_000 + int64(i*i-30*i)
					r := recordbatch.Record{Time: f.time, Key: f.key}
					recordbatch.AddHeader(&r.Headers, "a", f.headers["a"])
					recordbatch.AddHeader(&r.Headers, "é", "")
					if r.Tombstone = i%7 == 3; !r.Tombstone {
						f.value = bytes.Repeat([]byte("value "), i*i*round)
						r.Value = [][]byte{f.value[:len(f.value)/2], nil, f.value[len(f.value)/2:]}
					}
					want = append(want, f)
					e.Append(&r)
				}
				sealed, err := e.Seal(recordbatch.Producer{ID: 1 << 40, Epoch: 7, Sequence: math.MaxInt32, Transactional: true})
				must(t, err)
				wantRecords(t, own(t, sealed.Bytes[recordbatch.SizePrefix:]), want)
				b, got := decode(t, sealed.Bytes)
				if b.ProducerID != 1<<40 || b.ProducerEpoch != 7 || b.BaseSequence != math.MaxInt32 || !b.Attributes.Transactional() {
					t.Errorf("producer %d/%d sequence %d %v", b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Attributes)
				}
				wantRecords(t, got, want)
			}
		})
	}
}

func wantRecords(t *testing.T, got, want []decoded) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.offset != w.offset || g.time != w.time || !bytes.Equal(g.key, w.key) || !bytes.Equal(g.value, w.value) || (g.value == nil) != (w.value == nil) {
			t.Errorf("record %d: %q=%.50q (%d), want %q=%.50q (%d)", i, g.key, g.value, g.offset, w.key, w.value, w.offset)
		}
		if fmt.Sprint(g.headers) != fmt.Sprint(w.headers) {
			t.Errorf("record %d: headers %v, want %v", i, g.headers, w.headers)
		}
	}
}

// A batch that compression would enlarge is sent uncompressed, so that its size never exceeds the plain size.
func TestIncompressibleIsSentPlain(t *testing.T) {
	codec, err := recordbatch.NewCodec("zstd")
	must(t, err)
	e := recordbatch.NewEncoder(codec)
	e.Reset()
	e.Append(&recordbatch.Record{Key: []byte("k"), Value: [][]byte{[]byte("v")}})
	sealed, err := e.Seal(recordbatch.Producer{})
	must(t, err)
	if b, got := decode(t, sealed.Bytes); b.Attributes.Compression() != 0 || string(got[0].value) != "v" {
		t.Errorf("attributes %v, value %q", b.Attributes, got[0].value)
	}
}

func FuzzVarintLen(f *testing.F) {
	f.Add(int64(0))
	f.Add(int64(math.MinInt64))
	f.Add(int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, v int64) {
		e := recordbatch.NewEncoder(nil)
		e.Reset()
		e.Append(&recordbatch.Record{Time: 0})
		e.Append(&recordbatch.Record{Time: v, Key: []byte("k"), Value: [][]byte{[]byte("v")}})
		sealed, err := e.Seal(recordbatch.Producer{})
		must(t, err)
		if _, got := decode(t, sealed.Bytes); len(got) != 2 || string(got[1].value) != "v" {
			t.Errorf("a record %d ms later: %v", v, got)
		}
	})
}

var must = require.NoError
