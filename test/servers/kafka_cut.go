package servers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
	file, _, ends, err := k.writes(partition)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if cut = min(n, len(ends)-1); cut <= 0 || err != nil {
		return 0, err
	}
	return cut, os.Truncate(file, int64(ends[len(ends)-1-cut]))
}

// CutMiddle removes n committed writes of a partition, after the first ones, as a fault of a disk does. The broker must not run.
func (k *Kafka) CutMiddle(partition string, after, n int) error {
	file, text, ends, err := k.writes(partition)
	if err != nil {
		return err
	}
	if after+n >= len(ends) {
		return fmt.Errorf("%s has only %d writes", partition, len(ends)-1)
	}
	for _, index := range []string{"index", "timeindex"} { // the broker makes them again
		if err := os.Remove(strings.TrimSuffix(file, "log") + index); err != nil {
			return err
		}
	}
	return os.WriteFile(file, append(text[:ends[after]:ends[after]], text[ends[after+n]:]...), 0o600)
}

// writes returns the first segment of a partition, its content, and where its committed writes end, the first of which is 0.
func (k *Kafka) writes(partition string) (file string, text []byte, ends []int, err error) {
	file = filepath.Join(k.instance.path("data"), partition, fmt.Sprintf("%020d.log", 0))
	text, err = os.ReadFile(file)
	ends = []int{0}
	for offset := 0; err == nil && offset+markerTypeAt < len(text); {
		end := offset + 12 + int(binary.BigEndian.Uint32(text[offset+batchLengthAt:]))
		attributes := text[offset+batchAttributesAt]
		if attributes&isTransactional == 0 || attributes&isMarker != 0 && text[offset+markerTypeAt] == 1 {
			ends = append(ends, end)
		}
		offset = end
	}
	return file, text, ends, err
}
