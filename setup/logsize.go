package setup

import (
	"context"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/config"
)

// LogSize measures the log of a cluster. It is safe for concurrent use.
type LogSize struct {
	Settings *config.Config
	Cluster  string

	mu    sync.Mutex
	size  *change.LogSize
	began time.Time // when it was last measured
}

const (
	// measuredFor is how long a size is used again, since a page requests it every two seconds.
	measuredFor = time.Minute
	// measureLimit is how long a server may take, or a slow disk.
	measureLimit = 5 * time.Second
)

// Get returns the size as last measured, or nil if it is not known. After a minute it measures again. Only the call that begins this waits,
// until it has the size or ctx ends.
func (l *LogSize) Get(ctx context.Context) *change.LogSize {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.began) > measuredFor {
		l.began = now
		measured := make(chan struct{})
		go func() {
			defer close(measured)
			size, _ := l.measure(now) // a failure must not hide the rest of a status
			l.mu.Lock()
			defer l.mu.Unlock()
			l.size = size
		}()
		l.mu.Unlock()
		select {
		case <-measured:
		case <-ctx.Done():
		}
		l.mu.Lock()
	}
	return l.size
}

func (l *LogSize) measure(now time.Time) (*change.LogSize, error) {
	sink := SinkOf(l.Settings)
	if !sink.Readable() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), measureLimit)
	defer cancel()
	reader, err := sink.read(ctx, l.Settings, l.Cluster)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	size, err := reader.LogSize(ctx, now)
	if err != nil {
		return nil, err
	}
	if sink.InCheckpoint {
		size.Expect(int64(l.Settings.Sink.SQLiteMaxSize), time.Duration(l.Settings.Sink.SQLiteHistory), now)
	}
	return size, nil
}
