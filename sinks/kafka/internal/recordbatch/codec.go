package recordbatch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
)

// Codec compresses the records of a batch.
type Codec interface {
	// bits are the batch attributes that name the codec.
	bits() int16
	// appendTo appends src, compressed, to dst.
	appendTo(dst, src []byte) ([]byte, error)
}

// NewCodec returns the codec with a name: none (nil), gzip, snappy (the default), lz4 or zstd.
func NewCodec(name string) (Codec, error) {
	switch name {
	case "zstd":
		return newZstd()
	case "none":
		return nil, nil
	case "", "snappy":
		return snappyCodec{}, nil
	case "gzip", "lz4":
		var c compress.Compression
		if err := c.UnmarshalText([]byte(name)); err != nil {
			return nil, err
		}
		return streamCodec{c.Codec()}, nil
	}
	return nil, fmt.Errorf("%q is not one of none, gzip, snappy, lz4, zstd", name)
}

// zstdCodec uses EncodeAll, which needs no stream and no copy. Objects in a batch repeat what is a few objects away, and nearly
// every batch is below 1 MiB. A window of that size takes a tenth less time than one of 256 KiB, and the result is 3% shorter.
// The default of 4 MiB holds 8 MB of history without a gain. The option for the window must come before the option for the level.
// Otherwise blocks are half as long, and each has its own tables, which cost a tenth of the time. One encoder serves all slots:
// 200,000 changes a second.
type zstdCodec struct{ enc *zstd.Encoder }

func newZstd() (Codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<20), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1))
	return zstdCodec{enc}, err
}

func (z zstdCodec) bits() int16 { return int16(compress.Zstd) }

func (z zstdCodec) appendTo(dst, src []byte) ([]byte, error) { return z.enc.EncodeAll(src, dst), nil }

// snappyCodec writes the form of Xerial's Java library: a header, and blocks that begin with their length. All clients read that,
// but not all read Snappy without it. A batch is one block, since repetitions across blocks are not found. S2's encoder is in
// assembly. It takes a quarter of the time of kafka-go's codec with blocks of 32 KiB, and the result is a fifth shorter.
type snappyCodec struct{}

// name, version, oldest compatible version
var xerialHeader = []byte{130, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}

func (snappyCodec) bits() int16 { return int16(compress.Snappy) }

func (snappyCodec) appendTo(dst, src []byte) ([]byte, error) {
	need := s2.MaxEncodedLen(len(src))
	if need < 0 {
		return nil, fmt.Errorf("snappy can't compress %d bytes at once", len(src))
	}
	dst = slices.Grow(dst, len(xerialHeader)+4+need)
	dst = append(dst, xerialHeader...)
	start := len(dst) + 4
	block := s2.EncodeSnappy(dst[start:start+need], src)
	return binary.BigEndian.AppendUint32(dst, uint32(len(block)))[:start+len(block)], nil
}

// streamCodec is a codec of kafka-go, which frames lz4 as Kafka's consumers expect.
type streamCodec struct{ compress.Codec }

func (s streamCodec) bits() int16 { return int16(s.Code()) }

func (s streamCodec) appendTo(dst, src []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	w := s.NewWriter(out)
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
