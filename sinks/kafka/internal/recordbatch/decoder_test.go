package recordbatch_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"

	"kubecdc/sinks/kafka/internal/recordbatch"
)

// own reads a record set without its size, like the exporter, and demands that nothing is skipped.
func own(t *testing.T, set []byte) []decoded {
	t.Helper()
	all, passed, err := readAll(set)
	if err != nil || len(passed) > 0 {
		t.Fatalf("passed by %v, error %v", passed, err)
	}
	return all
}

func readAll(set []byte) (all []decoded, passed []*recordbatch.TooLargeError, err error) {
	var d recordbatch.Decoder
	defer d.Close()
	for len(set) > 0 {
		var b recordbatch.Batch
		if b, set, err = recordbatch.Next(set); err != nil {
			return all, passed, err
		}
		if err := d.Open(&b); err != nil {
			return all, passed, err
		}
		for {
			r, err := d.Next()
			var large *recordbatch.TooLargeError
			if errors.As(err, &large) {
				passed = append(passed, large)
				continue
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return all, passed, err
			}
			f := decoded{offset: r.Offset, time: r.Time, key: r.Key, value: r.Value, headers: map[string]string{}}
			for _, h := range r.Headers {
				f.headers[h.Name] = string(h.Value)
			}
			all = append(all, f)
			d.Keep()
		}
	}
	return all, passed, nil
}

// foreign returns a record batch as another producer makes it, with the given records and compression.
func foreign(codec, count int, records []byte) []byte {
	b := make([]byte, 61, 61+len(records))
	be := binary.BigEndian
	be.PutUint32(b[8:], uint32(49+len(records)))
	b[16] = 2
	be.PutUint16(b[21:], uint16(codec))
	be.PutUint32(b[23:], uint32(count-1))
	be.PutUint32(b[57:], uint32(count))
	b = append(b, records...)
	be.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// record returns one uncompressed record without a key, with a number of headers.
func record(index int, value []byte, headers int) []byte {
	b := binary.AppendVarint(append([]byte{0, 0}, binary.AppendVarint(nil, int64(index))...), -1)
	b = append(binary.AppendVarint(b, int64(len(value))), value...)
	b = binary.AppendVarint(b, int64(headers))
	b = append(b, bytes.Repeat([]byte{2, 'h', 2, 'v'}, headers)...)
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

// Other producers frame Snappy in many blocks (Java's) or not at all (franz-go's), and compress by streams.
func TestBatchesOfOtherProducers(t *testing.T) {
	var plain []byte
	var want []decoded
	for i := range 100 {
		value := bytes.Repeat([]byte(fmt.Sprint("value ", i)), 200)
		plain = append(plain, record(i, value, 1)...)
		want = append(want, decoded{offset: int64(i), value: value, headers: map[string]string{"h": "v"}})
	}
	sets := map[string][]byte{"snappy without a frame": foreign(2, 100, s2.EncodeSnappy(nil, plain))}
	for _, c := range []compress.Compression{compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		var b bytes.Buffer
		w := c.Codec().NewWriter(&b)
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		must(t, w.Close())
		sets[c.String()] = foreign(int(c), 100, b.Bytes())
	}
	for name, set := range sets {
		t.Run(name, func(t *testing.T) { wantRecords(t, own(t, set), want) })
	}
}

// zeros returns zstd data that unpacks to a beginning and n zeros.
func zeros(t *testing.T, begin []byte, n int, o ...zstd.EOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, o...)
	must(t, err)
	if _, err := io.Copy(w, io.MultiReader(bytes.NewReader(begin), io.LimitReader(zero{}, int64(n)))); err != nil {
		t.Fatal(err)
	}
	must(t, w.Close())
	return b.Bytes()
}

type zero struct{}

func (zero) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// Data of other programs may unpack to any size. It is reported and skipped without taking the memory, and what follows is read.
func TestWhatUnpacksToTooMuchIsPassedBy(t *testing.T) {
	const huge = 700 << 20
	head := binary.AppendVarint(append(binary.AppendVarint([]byte{}, huge+8), 0, 0, 0, 1), huge) // a record of the offset 0
	last := record(1, []byte("last"), 0)
	snappy := []byte{0x80, 0x80, 0x80, 0xd8, 0x02} // its length, and no more
	for name, test := range map[string]struct {
		set   []byte
		what  string
		reads int
	}{
		"a record":  {append(foreign(4, 1, zeros(t, head, huge)), foreign(0, 1, last)...), "a record of 734003208 bytes", 1},
		"a window":  {append(foreign(4, 1, zeros(t, head, huge, zstd.WithWindowSize(64<<20))), foreign(0, 1, last)...), "refers back", 1},
		"a block":   {append(foreign(2, 1, snappy), foreign(0, 1, last)...), "a compressed block", 1},
		"headers":   {foreign(0, 2, append(record(0, nil, 2000), last...)), "2000 headers", 1},
		"no record": {foreign(4, 1<<30, zeros(t, nil, huge)), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			all, passed, err := readAll(test.set)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
				t.Errorf("%d MB were allocated", took>>20)
			}
			if name == "no record" {
				if !errors.Is(err, recordbatch.ErrMalformed) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || len(passed) != 1 || !strings.Contains(passed[0].Error(), test.what) || len(all) != test.reads {
				t.Fatalf("%d records, passed by %v, error %v", len(all), passed, err)
			}
			if string(all[0].value) != "last" {
				t.Errorf("the last record is %q", all[0].value)
			}
		})
	}
}

// A broker's answer may end in the middle of a batch. Bytes that were changed on the way are noticed.
func TestCutAndDamagedBatches(t *testing.T) {
	set := foreign(0, 1, record(0, []byte("value"), 0))
	for n := 1; n < len(set); n++ {
		if _, _, err := recordbatch.Next(set[:n]); !errors.Is(err, recordbatch.ErrCut) {
			t.Fatalf("%d of %d bytes: error %v", n, len(set), err)
		}
	}
	for _, i := range []int{16, 30, 63, len(set) - 1} {
		damaged := bytes.Clone(set)
		damaged[i] ^= 1
		if _, _, err := recordbatch.Next(damaged); !errors.Is(err, recordbatch.ErrMalformed) {
			t.Errorf("byte %d: error %v", i, err)
		}
	}
}

// Whatever the bytes are, reading them ends without a panic.
func FuzzDecoder(f *testing.F) {
	plain := append(record(0, []byte("value"), 3), record(1, nil, 0)...)
	for codec := range 6 {
		f.Add(codec, 2, plain)
	}
	f.Add(2, 2, s2.EncodeSnappy(nil, plain))
	f.Add(4, 2, []byte{0x28, 0xb5, 0x2f, 0xfd, 4, 0})
	f.Fuzz(func(t *testing.T, codec, count int, records []byte) {
		_, _, _ = readAll(foreign(codec&7, count&0xffff+1, records))
	})
}
