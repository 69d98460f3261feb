package change

import (
	"cmp"
	"strings"
)

// CompareVersions compares two resourceVersions of one resource of one cluster as unsigned integers of any
// length (KEP-5504): negative when a is older than b. The empty text is older than all others.
// It must never be used across resources of different API servers or clusters.
func CompareVersions(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// ValidVersion reports whether v is a resourceVersion that can be compared: decimal digits, not all zero.
func ValidVersion(v string) bool {
	if strings.Trim(v, "0") == "" {
		return false
	}
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return false
		}
	}
	return true
}
