package known

import (
	"cmp"

	"kubecdc/change"
)

// Object is what was last emitted of a live object.
type Object struct {
	UID     string
	Version change.ResourceVersion
}

// Difference is how an object of the server differs from the one that the log has under its key.
type Difference int

const (
	Absent      Difference = iota // the log has no object under the key
	Same                          // the same object, at the same version
	Newer                         // the same object, at a newer version than the log has
	Older                         // the same object, at an older version: a repeated event, or a history that went back
	Successor                     // another object, at a newer version than the log has of the one before it
	Predecessor                   // another object, at a version that is not newer: a repeated event, or a history that went back
)

// Known reports whether the log has this very object, at any version.
func (d Difference) Known() bool { return Same <= d && d <= Older }

// Replaces reports whether the log has another object under the key.
func (d Difference) Replaces() bool { return d == Successor || d == Predecessor }

// Compare returns how an object of the server differs from the one that the set has under its key. It makes no strings, since it
// is called for every event.
func (s *Set) Compare(key, uid string, version change.ResourceVersion) Difference {
	slot, found := s.find(key)
	if !found {
		return Absent
	}
	n := s.entryAt(slot)
	e := s.entry(n)
	v, err := version.Revision()
	if e.odd || err != nil {
		old := s.unpack(n)
		return differenceOf(old.UID == uid, version.Compare(old.Version))
	}
	var packed [16]byte
	return differenceOf(packUUID(uid, &packed) && packed == e.uid, cmp.Compare(v, e.version))
}

// CompareListed is Compare, and also marks the key if the object is the same.
func (s *Set) CompareListed(key, uid string, version change.ResourceVersion) Difference {
	d := s.Compare(key, uid, version)
	if d == Same {
		s.Mark(key)
	}
	return d
}

// differenceOf returns the difference of two objects. order is positive if the server's version is newer.
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
