package postgres

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"kubecdc/change"
)

// flatOffsets is change.Offsets as it is stored, "topic/partition" → next offset: jsonb's || merges one level only.
type flatOffsets map[string]int64

func flatten(o change.Offsets) flatOffsets {
	flat := flatOffsets{}
	for topic, partitions := range o {
		for p, next := range partitions {
			flat[topic+"/"+strconv.Itoa(p)] = next
		}
	}
	return flat
}

func (f flatOffsets) nested() (change.Offsets, error) {
	o := change.Offsets{}
	for name, next := range f {
		i := strings.LastIndexByte(name, '/')
		p, err := strconv.Atoi(name[i+1:])
		if i < 0 || err != nil {
			return nil, fmt.Errorf("stored offset %q is not topic/partition", name)
		}
		if o[name[:i]] == nil {
			o[name[:i]] = map[int]int64{}
		}
		o[name[:i]][p] = next
	}
	return o, nil
}

func (f flatOffsets) json() []byte {
	b, _ := json.Marshal(f) // strings and numbers only: can't fail
	return b
}
