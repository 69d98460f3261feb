// Package pack compresses the bodies that checkpoint stores keep.
package pack

import (
	"fmt"
	"runtime"

	"github.com/klauspost/compress/zstd"
)

// One encoder and one decoder serve all stores: EncodeAll and DecodeAll are safe for concurrent use, and each
// state that they hold costs about a megabyte. The database guards against damage; a checksum would do so twice.
var (
	encoder = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithWindowSize(128<<10), zstd.WithLowerEncoderMem(true)))
	decoder = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithDecoderLowmem(true)))
)

// Append compresses body and appends it to dst.
func Append(dst, body []byte) []byte { return encoder.EncodeAll(body, dst) }

// Unpack gives back what Append was given, in memory of its own.
func Unpack(packed []byte) ([]byte, error) {
	body, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack a stored body: %w", err)
	}
	return body, nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
