// Package dberror is what a failed call to a database tells. What to do about which failure, each database's own
// package says; it knows no driver.
package dberror

import "fmt"

// Error is a failed call: what was tried, on which database, why it failed and what the user can do.
type Error struct {
	Op    string // "commit batch 7 of slot 2"
	Where string // the database, without the password, or the file
	Err   error
	Hint  string // what the user can do; empty when there is nothing to say
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s in %s: %v", e.Op, e.Where, e.Err)
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }
