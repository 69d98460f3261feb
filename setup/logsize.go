package setup

import (
	"context"
	"sync/atomic"
	"time"

	"kubecdc/change"
	"kubecdc/config"
)

// LogSize measures the log of a cluster. It is safe for concurrent use.
type LogSize struct {
	Settings *config.Config
	Cluster  string

	began atomic.Int64 // when it was last measured
	size  atomic.Pointer[change.LogSize]
}

const (
	measuredFor  = time.Minute // a page requests it every two seconds
	measureLimit = 5 * time.Second
)

// Get returns the size as last measured, or nil if it is not known. After a minute it measures again. Only the call that begins
// this waits, until it has the size or ctx ends.
func (l *LogSize) Get(ctx context.Context) *change.LogSize {
	now := time.Now()
	began := l.began.Load()
	if now.Sub(time.Unix(0, began)) > measuredFor && l.began.CompareAndSwap(began, now.UnixNano()) {
		measuring, end := context.WithTimeout(context.Background(), measureLimit)
		go func() {
			defer end()
			size, _ := l.measure(measuring, now) // a failure must not hide the rest of a status
			l.size.Store(size)
		}()
		select {
		case <-measuring.Done():
		case <-ctx.Done():
		}
	}
	return l.size.Load()
}

func (l *LogSize) measure(ctx context.Context, now time.Time) (*change.LogSize, error) {
	sink := SinkOf(l.Settings)
	if !sink.Readable() {
		return nil, nil
	}
	reader, err := sink.read(ctx, l.Settings, l.Cluster)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	size, err := reader.LogSize(ctx, now)
	if err == nil && sink.InCheckpoint {
		size.Expect(int64(l.Settings.Sink.SQLiteMaxSize), time.Duration(l.Settings.Sink.SQLiteHistory), now)
	}
	return size, err
}
