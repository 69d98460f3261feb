package known

import (
	"strings"

	"kubecdc/change"
)

// Object is what was last emitted of a live object.
type Object struct {
	UID     string
	Version change.ResourceVersion
}

// LostMark before a version says that the log has lost its record of the object: the object must be written again.
const LostMark = "-"

// Recorded returns the version without LostMark.
func (k Object) Recorded() change.ResourceVersion {
	return change.ResourceVersion(strings.TrimPrefix(string(k.Version), LostMark))
}

// lost reports whether the log has lost its record of the object.
func (k Object) lost() bool { return strings.HasPrefix(string(k.Version), LostMark) }

// Difference is how an object that the server shows differs from the one that the log has under the same key.
type Difference int

const (
	Absent      Difference = iota // the log has no object under the key
	Same                          // the same object, at the same version
	Newer                         // the same object, at a newer version than the log has
	Older                         // the same object, at an older version: a repeated event, or a history that went back
	Lost                          // the same object, and the log has lost its record of it
	Successor                     // another object, at a newer version than the log has of the one before it
	Predecessor                   // another object, at a version that is not newer: a repeated event, or a history that went back
)

// Known reports whether the log has this very object, in whatever version.
func (d Difference) Known() bool { return Same <= d && d <= Lost }

// Replaces reports whether the log has another object under the key.
func (d Difference) Replaces() bool { return d == Successor || d == Predecessor }

// Diff returns how an object that the server shows differs from what the log has under its key.
func Diff(old Object, exists bool, uid string, version change.ResourceVersion) Difference {
	switch {
	case !exists:
		return Absent
	case old.lost() && old.UID == uid:
		return Lost
	case old.lost():
		return Successor
	}
	return differenceOf(old.UID == uid, version.Compare(old.Version))
}

// differenceOf returns the difference of two objects from the order of their versions, positive if the server's is newer.
func differenceOf(sameUID bool, order int) Difference {
	switch {
	case sameUID && order == 0:
		return Same
	case sameUID && order > 0:
		return Newer
	case sameUID:
		return Older
	case order > 0:
		return Successor
	}
	return Predecessor
}
