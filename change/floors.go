package change

import "maps"

// Floors say of a position, to which streams of different progress were merged, how far the log has the changes of
// each namespace. A namespace that is not named has the floor of AllOthers; without that, its floor is the position.
// An empty floor: the first list of the namespace was not complete, so some of its objects may not be in the log.
type Floors map[string]string // namespace → resourceVersion

// AllOthers stands for all namespaces that are not named. None can have this name.
const AllOthers = "*"

// Of gives the floor of a namespace; ok is false where it is the position.
func (f Floors) Of(namespace string) (version string, ok bool) {
	if version, ok = f[namespace]; !ok {
		version, ok = f[AllOthers]
	}
	return version, ok
}

// Has reports whether the log has the namespace's change of this version already.
func (f Floors) Has(namespace, version string) bool {
	floor, ok := f.Of(namespace)
	return ok && floor != "" && CompareVersions(version, floor) <= 0
}

// Unlisted reports whether the first list of some namespace was not complete.
func (f Floors) Unlisted() bool {
	for _, floor := range f {
		if floor == "" {
			return true
		}
	}
	return false
}

// Beyond gives what is left of the floors at a position: those that it has not passed, nil when it has passed all.
// While it has not passed that of all others, a namespace must stay named, or it would get that one.
func (f Floors) Beyond(position string) Floors {
	if f == nil {
		return nil
	}
	if others, ok := f[AllOthers]; ok && (others == "" || CompareVersions(others, position) > 0) {
		return f
	}
	left := Floors{}
	for namespace, floor := range f {
		if floor == "" || CompareVersions(floor, position) > 0 {
			left[namespace] = floor
		}
	}
	if len(left) == 0 {
		return nil
	}
	return left
}

// Highest is the newest version that the log may have a change of: the position, or a floor above it.
func (f Floors) Highest(position string) string {
	for _, floor := range f {
		if CompareVersions(floor, position) > 0 {
			position = floor
		}
	}
	return position
}

// In gives how far the position is complete in one namespace.
func (p Position) In(namespace string) (version string) {
	floor, ok := p.Floors.Of(namespace)
	if ok && (floor == "" || CompareVersions(floor, p.ResourceVersion) > 0) {
		return floor
	}
	return p.ResourceVersion
}

// With is the position of p's stream and the stream of one namespace together: the lower one, with floors.
func (p Position) With(namespace string, other Position) Position {
	floors := Floors{}
	for name, floor := range p.Floors {
		if floors[name] = floor; floor != "" && CompareVersions(floor, p.ResourceVersion) < 0 {
			floors[name] = p.ResourceVersion
		}
	}
	floors[namespace] = other.ResourceVersion
	lower := other.ResourceVersion != "" && (p.ResourceVersion == "" || CompareVersions(other.ResourceVersion, p.ResourceVersion) < 0)
	if _, ok := floors[AllOthers]; lower && !ok {
		floors[AllOthers] = p.ResourceVersion
	}
	if lower {
		p.ResourceVersion, p.Time = other.ResourceVersion, other.Time
	}
	if p.ResourceVersion == "" {
		p.Floors = nil // all of it is to be listed
		return p
	}
	p.Floors = floors.Beyond(p.ResourceVersion)
	return p
}

// Without is the position of p's stream when the namespace is in another one.
func (p Position) Without(namespace string) Position {
	p.Floors = maps.Clone(p.Floors)
	delete(p.Floors, namespace)
	if others, ok := p.Floors[AllOthers]; ok && len(p.Floors) == 1 { // all are equally far
		p.ResourceVersion, p.Floors = others, nil
	}
	p.Floors = p.Floors.Beyond(p.ResourceVersion)
	return p
}
