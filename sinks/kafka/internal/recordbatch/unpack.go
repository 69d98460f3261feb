package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
)

// maxWindow bounds how far back zstd data may refer, since a decoder holds as much. RFC 8878 recommends that 8 MiB be supported,
// and that no more be demanded.
const maxWindow = 8 << 20

// unpack returns a reader of a batch's records, and a function that releases the codec.
func unpack(codec int16, packed []byte) (unpacked io.Reader, done func(), err error) {
	from := bytes.NewReader(packed)
	switch c := compress.Compression(codec); c {
	case compress.None:
		return from, func() {}, nil
	case compress.Snappy:
		framed := bytes.HasPrefix(packed, xerialHeader[:8])
		if framed {
			packed = packed[min(len(xerialHeader), len(packed)):]
		}
		return &snappyReader{blocks: packed, framed: framed}, func() {}, nil
	case compress.Zstd:
		return unpackZstd(from)
	default:
		if c.Codec() == nil {
			return nil, nil, fmt.Errorf("%w: compression %d is not known", ErrMalformed, codec)
		}
		r := c.Codec().NewReader(from)
		return r, func() { _ = r.Close() }, nil
	}
}

// zstdReaders have their own buffers. Without concurrency they have no goroutines, and are left to the garbage collector.
var zstdReaders sync.Pool

func unpackZstd(from io.Reader) (io.Reader, func(), error) {
	z, ok := zstdReaders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		if z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow)); err != nil {
			return nil, nil, err
		}
	}
	done := func() {
		if z.Reset(nil) == nil {
			zstdReaders.Put(z)
		}
	}
	if err := z.Reset(from); err != nil {
		done()
		return nil, nil, err
	}
	return zstdReader{z}, done, nil
}

// zstdReader reports data that would take too much memory.
type zstdReader struct{ *zstd.Decoder }

func (z zstdReader) Read(b []byte) (int, error) {
	n, err := z.Decoder.Read(b)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = &TooLargeError{What: fmt.Sprintf("compressed data that refers back by more than %d bytes", maxWindow)}
	}
	return n, err
}

// snappyReader unpacks block by block: Xerial's blocks with their length, or a single block without a frame.
type snappyReader struct {
	blocks []byte
	framed bool
	block  []byte // unpacked
	rest   []byte // rest of the block
}

func (r *snappyReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		packed, err := r.next()
		if err != nil {
			return 0, err
		}
		size, err := s2.DecodedLen(packed)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		if size > MaxRecord {
			return 0, &TooLargeError{What: fmt.Sprintf("a compressed block of %d bytes, where %d are the most", size, MaxRecord)}
		}
		if r.block, err = s2.Decode(slices.Grow(r.block[:0], size)[:size], packed); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		r.rest = r.block
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next takes the next block.
func (r *snappyReader) next() ([]byte, error) {
	if len(r.blocks) == 0 {
		return nil, io.EOF
	}
	if !r.framed {
		block := r.blocks
		r.blocks = nil
		return block, nil
	}
	if len(r.blocks) < 4 || int(binary.BigEndian.Uint32(r.blocks)) > len(r.blocks)-4 {
		return nil, fmt.Errorf("%w: a block of Snappy is cut", ErrMalformed)
	}
	end := 4 + int(binary.BigEndian.Uint32(r.blocks))
	block := r.blocks[4:end]
	r.blocks = r.blocks[end:]
	return block, nil
}
