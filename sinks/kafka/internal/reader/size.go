package reader

import (
	"context"
	"strings"
	"time"

	"kubecdc/change"
)

// LogSize asks the brokers for the size of all topics of the prefix, of one copy each. How old the topics are and how fast they grow can't be
// told without reading them, since compaction removes records and not offsets.
func (r *Reader) LogSize(ctx context.Context, now time.Time) (*change.LogSize, error) {
	prefix := r.Envelope.Prefix + "."
	sizes, err := r.Client.Sizes(ctx, prefix)
	if err != nil {
		return nil, r.Client.NewError("ask the brokers for the size of the topics "+prefix+"*", err)
	}
	size, all := &change.LogSize{}, &change.LogSample{}
	for topic, bytes := range sizes {
		resource := ""
		if r.IsData(topic) {
			resource = strings.TrimPrefix(topic, prefix)
		}
		size.Bytes += bytes
		all.Add(resource, false, float64(bytes))
	}
	return size, size.Estimate(size.Bytes, now, func(time.Time) (*change.LogSample, error) { return all, nil })
}
