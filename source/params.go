package source

import (
	"math"
	"net/url"
	"strconv"
	"time"

	"kubecdc/change"
)

// The parameters of each request, as pure functions. The contracts are those of
// https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions

const (
	acceptJSON      = "application/json"
	acceptListMeta  = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	acceptWatchMeta = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

// selectors are the same in every request of a stream.
func selectors(s *change.Stream) url.Values {
	q := url.Values{}
	if s.LabelSelector != "" {
		q.Set("labelSelector", s.LabelSelector)
	}
	if s.FieldSelector != "" {
		q.Set("fieldSelector", s.FieldSelector)
	}
	return q
}

func joinSelectors(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// listParams asks for one page. The first page sets no resourceVersion: "most recent", a consistent read, so a
// list can never be older than a position that any earlier request of any server led to. resourceVersion=0 ("any")
// would be cheaper and could go back in time; it is never used. A continue token carries the first page's version
// and must be sent without one.
func listParams(s *change.Stream, limit int, continueToken string) url.Values {
	q := selectors(s)
	q.Set("limit", strconv.Itoa(limit))
	if continueToken != "" {
		q.Set("continue", continueToken)
	}
	return q
}

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

// watchParams asks for every event after the version, with bookmarks, until the server's timeout.
// For a watch resourceVersion means "start exactly after it"; resourceVersionMatch must not be set.
func watchParams(s *change.Stream, version string, timeoutSeconds int) url.Values {
	q := selectors(s)
	q.Set("watch", "1")
	q.Set("allowWatchBookmarks", "true")
	q.Set("resourceVersion", version)
	q.Set("timeoutSeconds", strconv.Itoa(timeoutSeconds))
	return q
}

// initialParams asks for all objects and then for every event after them (KEP-3157). Without a resourceVersion it is
// "most recent", a consistent read like the list's; resourceVersionMatch must be NotOlderThan.
func initialParams(s *change.Stream, timeoutSeconds int) url.Values {
	q := selectors(s)
	q.Set("watch", "1")
	q.Set("allowWatchBookmarks", "true")
	q.Set("sendInitialEvents", "true")
	q.Set("resourceVersionMatch", "NotOlderThan")
	q.Set("timeoutSeconds", strconv.Itoa(timeoutSeconds))
	return q
}

// exactParams reads the past: the collection as it was at the version and at no other
// (resourceVersionMatch=Exact). The server answers 410 when it has compacted that revision.
func exactParams(s *change.Stream, version string, limit int) url.Values {
	q := selectors(s)
	q.Set("resourceVersion", version)
	q.Set("resourceVersionMatch", "Exact")
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return q
}
