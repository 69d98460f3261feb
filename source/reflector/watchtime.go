package reflector

import (
	"math"
	"time"
)

// bookmarkLead is how long before a watch's timeout the server sends a last bookmark, in seconds (kube-apiserver,
// cacheWatcher.nextBookmarkTime). The others come about once a minute.
const bookmarkLead = 2

// watchSeconds returns the timeout of a watch in seconds: a random time between o.WatchTimeout and twice that. So the streams of
// a process do not reconnect together. If watermarks are due more often than bookmarks, the watch is so short that its last
// bookmark is the watermark. If no bookmark has come, the timeout is about a minute. Without bookmarks only the ends of watches
// move the position of a quiet stream (empty_watch.go), two or three watches later. The server compacts that position after five
// minutes by default.
func watchSeconds(o Options, bookmarks bool, chance float64) int {
	if o.Watermark > 0 && o.Watermark < time.Minute {
		return max(1, int(math.Ceil(o.Watermark.Seconds()))) + bookmarkLead
	}
	if !bookmarks {
		return min(40+int(20*chance), max(1, int(o.WatchTimeout.Seconds()))) + bookmarkLead
	}
	return max(1, int(o.WatchTimeout.Seconds()*(1+chance)))
}
