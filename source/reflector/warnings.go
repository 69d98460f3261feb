package reflector

import (
	"strings"
	"time"
	"unicode"

	"kubecdc/source/apiclient"
)

// warnEvery is how often a failure that goes on for the same reason is logged again.
const warnEvery = 5 * time.Minute

// warnings picks the failures of a stream that are worth a line in the log: the first, each with another reason, and one
// every warnEvery. The stream's state has all of them.
type warnings struct {
	last  map[string]time.Time // by reason
	muted int                  // since the last that was logged
}

// mostReasons bounds how many are remembered.
const mostReasons = 16

// due reports whether a failure is to be logged, and how many were not since the last that was. Reasons that differ in
// numbers alone (ports, resourceVersions, times) are the same.
func (w *warnings) due(err error) (due bool, muted int) {
	reason := withoutDigits(apiclient.Reason(err))
	if last, ok := w.last[reason]; ok && time.Since(last) < warnEvery {
		w.muted++
		return false, 0
	}
	if w.last == nil || len(w.last) >= mostReasons {
		w.last = map[string]time.Time{}
	}
	w.last[reason] = time.Now()
	muted, w.muted = w.muted, 0
	return true, muted
}

func withoutDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
}
