package kafka

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/protocol"

	"kubecdc/change"
)

// decode reads a record set as kafka-go does when it consumes.
func decode(t *testing.T, set []byte) (*protocol.RecordBatch, []fetched) {
	t.Helper()
	var rs protocol.RecordSet
	if _, err := rs.ReadFrom(bytes.NewBuffer(set)); err != nil {
		t.Fatalf("decode: %v", err)
	}
	b := rs.Records.(*protocol.RecordStream).Records[0].(*protocol.RecordBatch)
	var all []fetched
	for {
		r, err := b.ReadRecord()
		if err == io.EOF {
			return b, all
		}
		if err != nil {
			t.Fatal(err)
		}
		f, _, err := (&scanner{}).copyRecord(r)
		if err != nil {
			t.Fatal(err)
		}
		f.headers["time"] = fmt.Sprint(r.Time.UnixMilli())
		all = append(all, f)
	}
}

func TestRecordBatchRoundTrip(t *testing.T) {
	for _, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(name, func(t *testing.T) {
			codec, err := newCodec(name)
			if err != nil {
				t.Fatal(err)
			}
			e := batchEncoder{codec: codec}
			for round := range 3 { // buffers are reused
				e.reset()
				var want []fetched
				for i := range 50 {
					f := fetched{offset: int64(i), key: fmt.Append(nil, "key-", i), headers: map[string]string{"a": strings.Repeat("h", i*5), "é": ""}}
					r := record{time: 1_700_000_000_000 + int64(i*i-30*i), key: f.key, headerCount: 2}
					r.headers = appendHeader(appendHeader(nil, "a", f.headers["a"]), "é", "")
					if r.tombstone = i%7 == 3; !r.tombstone {
						f.value = bytes.Repeat([]byte("value "), i*i*round)
						r.value = change.Value{f.value[:len(f.value)/2], nil, f.value[len(f.value)/2:]}
					}
					f.headers["time"] = fmt.Sprint(r.time)
					want = append(want, f)
					e.append(&r)
				}
				sealed, err := e.seal(nil, batchMeta{producerID: 1 << 40, producerEpoch: 7, sequence: math.MaxInt32, transactional: true})
				if err != nil {
					t.Fatal(err)
				}
				b, got := decode(t, sealed)
				if b.ProducerID != 1<<40 || b.ProducerEpoch != 7 || b.BaseSequence != math.MaxInt32 || !b.Attributes.Transactional() {
					t.Errorf("producer %d/%d sequence %d %v", b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Attributes)
				}
				wantRecords(t, got, want)
			}
		})
	}
}

func wantRecords(t *testing.T, got, want []fetched) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.offset != w.offset || !bytes.Equal(g.key, w.key) || !bytes.Equal(g.value, w.value) || (g.value == nil) != (w.value == nil) {
			t.Errorf("record %d: %q=%.50q (%d), want %q=%.50q (%d)", i, g.key, g.value, g.offset, w.key, w.value, w.offset)
		}
		if fmt.Sprint(g.headers) != fmt.Sprint(w.headers) {
			t.Errorf("record %d: headers %v, want %v", i, g.headers, w.headers)
		}
	}
}

// A batch that compression would enlarge is sent as it is, so that its size never exceeds the plain one.
func TestIncompressibleStaysPlain(t *testing.T) {
	codec, err := newCodec("zstd")
	if err != nil {
		t.Fatal(err)
	}
	e := batchEncoder{codec: codec}
	e.reset()
	e.append(&record{key: []byte("k"), value: change.Value{[]byte("v")}})
	sealed, err := e.seal(nil, batchMeta{})
	if err != nil {
		t.Fatal(err)
	}
	if b, got := decode(t, sealed); b.Attributes.Compression() != 0 || string(got[0].value) != "v" {
		t.Errorf("attributes %v, value %q", b.Attributes, got[0].value)
	}
}

func TestSequenceWraps(t *testing.T) {
	if got := nextSequence(math.MaxInt32-1, 3); got != 1 {
		t.Errorf("the sequence after 2^31-2, three records later, is %d, want 1", got)
	}
}

func FuzzVarintLen(f *testing.F) {
	f.Add(int64(0))
	f.Add(int64(math.MinInt64))
	f.Add(int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, v int64) {
		e := batchEncoder{}
		e.reset()
		e.append(&record{time: 0})
		e.append(&record{time: v, key: []byte("k"), value: change.Value{[]byte("v")}})
		sealed, err := e.seal(nil, batchMeta{})
		if err != nil {
			t.Fatal(err)
		}
		if _, got := decode(t, sealed); len(got) != 2 || string(got[1].value) != "v" {
			t.Errorf("a record %d ms later: %v", v, got)
		}
	})
}
