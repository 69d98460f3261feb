// Package dberror is what a failed call to a database tells. Which failures pass and what to do about them, each
// database's own package says; it knows no driver.
package dberror

import "fmt"

// Error is a failed call: what was tried, on which database, why it failed and what the user can do.
type Error struct {
	Op    string // "commit batch 7 of slot 2"
	Where string // the database, without the password, or the file
	Err   error
	Class Class
}

// Class is what kind of failure it is.
type Class struct {
	Transient bool   // the call may succeed when it is tried again later
	Hint      string // what the user can do; empty when there is nothing to say
}

// Passes is a failure that may be over when the call is tried again.
func Passes(hint string) Class { return Class{Transient: true, Hint: hint} }

// Lasts is a failure that stays until somebody does something.
func Lasts(hint string) Class { return Class{Hint: hint} }

func (e *Error) Error() string {
	text := fmt.Sprintf("%s in %s: %v", e.Op, e.Where, e.Err)
	if e.Class.Hint != "" {
		text += ": " + e.Class.Hint
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Transient reports whether the call may succeed when it is tried again later.
func (e *Error) Transient() bool { return e.Class.Transient }

// Hint says what the user can do; empty when there is nothing to say.
func (e *Error) Hint() string { return e.Class.Hint }
