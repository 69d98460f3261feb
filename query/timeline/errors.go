package timeline

import (
	"fmt"
	"strings"
	"time"

	"kubecdc/change"
)

// TwoStatesError reports a resourceVersion that stands for two states or more of a stream, since etcd was restored from a backup.
type TwoStatesError struct {
	Stream  change.StreamID
	Version change.ResourceVersion
	Times   []time.Time // when the stream was at the version, or a little earlier
}

func (e *TwoStatesError) Error() string {
	var times []string
	for _, t := range e.Times {
		times = append(times, t.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s: etcd was restored from a backup, and resourceVersion %s stands for the states at %s: ask for one "+
		"of these times",
		e.Stream, e.Version, strings.Join(times, " and "))
}
