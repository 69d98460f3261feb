package reader

import (
	"context"
	"strings"
	"time"

	"kubecdc/change"
)

// LogSize asks the brokers for the sizes of all topics of the prefix, of one copy each. Only a scan could find age and pace,
// since compaction removes records and no offsets.
func (r *Reader) LogSize(ctx context.Context, now time.Time) (*change.LogSize, error) {
	prefix := r.Envelope.Prefix + "."
	sizes, err := r.Client.Sizes(ctx, prefix)
	if err != nil {
		return nil, err
	}
	size, all := &change.LogSize{}, map[string]float64{}
	for topic, bytes := range sizes {
		resource := ""
		if r.IsData(topic) {
			resource = strings.TrimPrefix(topic, prefix)
		}
		size.Bytes += bytes
		all[resource] += float64(bytes)
	}
	return size, size.Estimate(ctx, size.Bytes, now,
		func(context.Context, time.Time) (map[string]float64, error) { return all, nil })
}
