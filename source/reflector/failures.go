package reflector

import (
	"strings"
	"time"
	"unicode"

	"kubecdc/source/apiclient"
)

// warnEvery is how often a failure that goes on for the same reason is logged again.
const warnEvery = 5 * time.Minute

// failures counts the failures of a stream since the server last delivered. Each new reason is logged at once, and again after
// warnEvery. The stream's state shows every failure.
type failures struct {
	inRow   int
	last    map[string]time.Time // by reason
	skipped int                  // failures since the last one that was logged
}

const mostReasons = 16

// due reports whether to log a failure, and how many failures were skipped since the last one that was logged. Reasons that
// differ only in numbers (ports, resourceVersions, times) count as one.
func (f *failures) due(err error) (due bool, skipped int) {
	reason := withoutDigits(apiclient.Reason(err))
	if last, ok := f.last[reason]; ok && time.Since(last) < warnEvery {
		f.skipped++
		return false, 0
	}
	if f.last == nil || len(f.last) >= mostReasons {
		f.last = map[string]time.Time{}
	}
	f.last[reason] = time.Now()
	skipped, f.skipped = f.skipped, 0
	return true, skipped
}

func withoutDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
}
