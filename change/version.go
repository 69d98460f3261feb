package change

import (
	"cmp"
	"strconv"
	"strings"
)

// ResourceVersion is the version of an object or of a collection, as the API server gives it.
type ResourceVersion string

// UnknownVersion is the position of a stream that has objects in the log, if it is no longer known how far the log is complete.
// No API server gives it to anything.
const UnknownVersion ResourceVersion = "0"

// Compare compares two resourceVersions of one resource of one cluster as unsigned integers of any length (KEP-5504). The
// result is negative if v is older than other. The empty version equals 0, and is older than all others. Versions of different
// API servers or clusters must never be compared.
func (v ResourceVersion) Compare(other ResourceVersion) int {
	a, b := strings.TrimLeft(string(v), "0"), strings.TrimLeft(string(other), "0")
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// Valid reports whether the version can be compared: decimal digits, not all zero.
func (v ResourceVersion) Valid() bool {
	if strings.Trim(string(v), "0") == "" {
		return false
	}
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return false
		}
	}
	return true
}

// VersionOf returns the resourceVersion of a revision of etcd.
func VersionOf(revision uint64) ResourceVersion {
	return ResourceVersion(strconv.FormatUint(revision, 10))
}

// Revision returns the version as a number. It fails if the version is no number, or a larger one than etcd has.
func (v ResourceVersion) Revision() (uint64, error) { return strconv.ParseUint(string(v), 10, 64) }
