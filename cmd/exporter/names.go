package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kubecdc/internal/suggest"
)

// resourceNamed finds the resource that a name stands for: its id, or its plural if only one of those known has it. The error
// begins with what is wrong if there is none.
func resourceNamed(name string, known []string, missing string) (string, error) {
	if slices.Contains(known, name) {
		return name, nil
	}
	var like []string
	plurals := map[string]string{} // to ids
	for _, id := range known {
		plural, _, _ := strings.Cut(id, ".")
		plurals[plural] = id
		if plural == name && !slices.Contains(like, id) {
			like = append(like, id)
		}
	}
	switch len(like) {
	case 1:
		return like[0], nil
	case 0:
		names := slices.Clone(known)
		for plural := range plurals {
			names = append(names, plural)
		}
		slices.Sort(names)
		near := suggest.Name(name, names)
		if near != "" {
			near = "did you mean " + cmp.Or(plurals[near], near) + "? "
		}
		return "", &usageError{fmt.Sprintf("%s %q: %sit has %s", missing, name, near, cmp.Or(strings.Join(known, ", "), "none"))}
	}
	return "", &severalError{usageError{fmt.Sprintf("%q may be %s: name one of them", name, strings.Join(like, " or "))}}
}

// severalError: a name stands for more than one resource.
type severalError struct{ usageError }

func (e *severalError) Unwrap() error { return &e.usageError }

// resourcesNamed is resourceNamed for each of some names.
func resourcesNamed(names, known []string, missing string) (ids []string, err error) {
	for _, name := range names {
		id, err := resourceNamed(name, known, missing)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
