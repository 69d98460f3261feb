package reflector

import (
	"math"
	"time"
)

// bookmarkLead is how long before a watch's timeout the server sends a last bookmark, in seconds (kube-apiserver,
// cacheWatcher.nextBookmarkTime); else they come about once a minute.
const bookmarkLead = 2

// watchSeconds is how long the server is asked to keep a watch open: between the timeout and twice that, by chance, so
// that the streams of a process don't come back together. Where watermarks are wanted more often than the server sends
// bookmarks, the watch is kept so short that the bookmark before its end is the watermark. Where none has come yet it is
// about a minute: of a resource without bookmarks the end of a watch is all that moves a quiet position (silence.go),
// two or three watches later, and that must be before the server compacts it (5 minutes by default).
func watchSeconds(o Options, bookmarks bool, chance float64) int {
	if o.Watermark > 0 && o.Watermark < time.Minute {
		return max(1, int(math.Ceil(o.Watermark.Seconds()))) + bookmarkLead
	}
	if !bookmarks {
		return min(40+int(20*chance), max(1, int(o.WatchTimeout.Seconds()))) + bookmarkLead
	}
	return max(1, int(o.WatchTimeout.Seconds()*(1+chance)))
}
