package query

import (
	"fmt"
	"strings"
)

// IncompleteError lists what an answer may lack.
type IncompleteError struct{ Missing []string }

func (e *IncompleteError) Error() string {
	text := "the log does not have all of it:"
	reasons := e.byReason()
	for i, r := range reasons {
		if i == 100 {
			return text + fmt.Sprintf("\n  and %d more", len(reasons)-i)
		}
		text += "\n  " + r
	}
	return text
}

// byReason names streams together if the same is missing of them.
func (e *IncompleteError) byReason() (all []string) {
	lacking := map[string][]string{}
	for _, m := range e.Missing {
		stream, reason, _ := strings.Cut(m, ": ")
		if lacking[reason] = append(lacking[reason], stream); len(lacking[reason]) == 1 {
			all = append(all, reason)
		}
	}
	const most = 3
	for i, reason := range all {
		streams := lacking[reason]
		if more := len(streams) - most; more > 0 {
			streams = append(streams[:most:most], fmt.Sprintf("and %d more", more))
		}
		all[i] = strings.TrimSuffix(strings.Join(streams, ", ")+": "+reason, ": ")
	}
	return all
}
