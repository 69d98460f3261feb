package serve

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"kubecdc/change"
	"kubecdc/internal/plain"
)

// Proxies and clients have small buffers for the head of an answer: nginx 4 KB, and Python takes 100 headers. Without warnings
// the head is below 500 bytes. So warnings leave it below 3 KB.
const (
	longestWarning  = 256  // maximum size of a warning's text in runes, as of kube-apiserver
	largestWarnings = 2400 // maximum size of all warnings but the last one in bytes
)

// warn adds a Warning header for each reason why an answer may be incomplete. The first warning says what a time without a zone
// stands for. Reasons that name what was asked for come first. The last warning counts the reasons that do not fit.
func warn(w http.ResponseWriter, q *request, missing []string) {
	missing, size := q.namedFirst(missing), 0
	if q.local != "" {
		value := warning(q.local)
		size = len("Warning: \r\n") + len(value)
		w.Header().Add("Warning", value)
	}
	for i, m := range missing {
		value := warning("the answer may lack something: " + plain.Lines(m))
		if size += len("Warning: \r\n") + len(value); size > largestWarnings {
			w.Header().Add("Warning", fmt.Sprintf(`299 - "the answer may lack something: %d more reasons have no room here"`,
				len(missing)-i))
			return
		}
		w.Header().Add("Warning", value)
	}
}

func warning(text string) string {
	runes := []rune(strings.ToValidUTF8(text, "?"))
	if len(runes) > longestWarning {
		runes = append(runes[:longestWarning-1], '…')
	}
	return "299 - " + strconv.Quote(string(runes))
}

// namedFirst returns reasons in their order, but first those that name the request's object, and then those that name its
// namespace.
func (q *request) namedFirst(missing []string) []string {
	rank := func(m string) int {
		switch {
		case q.only() != "" && strings.Contains(m, " "+change.ObjectKey(q.namespace, q.only())+":"):
			return 0
		case q.namespace != "" && (strings.Contains(m, " "+q.namespace+"/") || strings.Contains(m, "@"+q.namespace+":")):
			return 1
		}
		return 2
	}
	missing = slices.Clone(missing)
	slices.SortStableFunc(missing, func(a, b string) int { return rank(a) - rank(b) })
	return missing
}
