package suggest

import (
	"cmp"
	"slices"
	"strings"

	"kubecdc/internal/usage"
)

// Like returns the resources that a name stands for: that of this id, or all of this plural.
func Like(name string, known []string) (ids []string) {
	if slices.Contains(known, name) {
		return []string{name}
	}
	for _, id := range known {
		if plural, _, _ := strings.Cut(id, "."); plural == name && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Several is the error for a name that stands for several resources.
func Several(name string, ids []string) error {
	return usage.Errorf("%q may be %s: name one of them", name, strings.Join(ids, " or "))
}

// Resources finds the resource that each of some names stands for among those that are known. missing begins the error if there is none.
func Resources(names, known []string, missing string) (ids []string, err error) {
	for _, name := range names {
		like := Like(name, known)
		switch len(like) {
		case 0:
			return nil, noResource(name, known, missing)
		case 1:
			ids = append(ids, like[0])
		default:
			return nil, Several(name, like)
		}
	}
	return ids, nil
}

func noResource(name string, known []string, missing string) error {
	names, plurals := slices.Clone(known), map[string]string{} // to ids
	for _, id := range known {
		plural, _, _ := strings.Cut(id, ".")
		names, plurals[plural] = append(names, plural), id
	}
	slices.Sort(names)
	near := Name(name, names)
	if near != "" {
		near = "did you mean " + cmp.Or(plurals[near], near) + "? "
	}
	return usage.Errorf("%s %q: %sit has %s", missing, name, near, cmp.Or(strings.Join(known, ", "), "none"))
}
