package servers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Offsets into a record batch of format 2, and bits of its attributes: https://kafka.apache.org/documentation/#recordbatch. A
// marker is one record whose key is its version and its type, of which 1 is a commit.
const (
	batchLengthAt     = 8
	batchAttributesAt = 22
	markerTypeAt      = 69
	isTransactional   = 1 << 4
	isMarker          = 1 << 5
)

// CutLast cuts the last n committed writes, or all if there are fewer, off a partition (TOPIC-N) of a broker that does not run. That is
// what an unclean election leaves. It returns how many it has cut.
func (k *Kafka) CutLast(partition string, n int) (cut int, err error) {
	file := filepath.Join(k.instance.path("data"), partition, fmt.Sprintf("%020d.log", 0))
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var ends []int // where committed writes end, or 0 before the first one
	for offset := 0; err == nil && offset+markerTypeAt < len(text); {
		end := offset + 12 + int(binary.BigEndian.Uint32(text[offset+batchLengthAt:]))
		attributes := text[offset+batchAttributesAt]
		if attributes&isTransactional == 0 || attributes&isMarker != 0 && text[offset+markerTypeAt] == 1 {
			ends = append(ends, end)
		}
		offset = end
	}
	if cut = min(n, len(ends)); cut == 0 || err != nil {
		return 0, err
	}
	ends = append([]int{0}, ends...)
	return cut, os.Truncate(file, int64(ends[len(ends)-1-cut]))
}
