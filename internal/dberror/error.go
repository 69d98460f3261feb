// Package dberror is what a failed call to a database tells: the checkpoint's, and the log's where that is one. What each
// failure means, and what to do about it, each database's own package says; this one knows no driver.
package dberror

import (
	"errors"
	"fmt"
)

// ErrGone: tables that were there when the database was opened are not any more, or are empty.
var ErrGone = errors.New("the tables are gone, or were emptied")

// Error is a failed call: what was tried, on which database, why it failed and what the user can do.
type Error struct {
	Op    string // "commit batch 7 of slot 2"
	Where string // the database, without the password, or the file
	Err   error
	Hint  string // what the user can do; empty when there is nothing to say
	Gone  bool   // it is an ErrGone: the exporter opens both ends anew
	// Transient: it may be over without anybody doing anything: the database can't be reached, is starting, or is overloaded. A
	// start waits for it.
	Transient bool
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s in %s: %v", e.Op, e.Where, e.Err)
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes it an ErrGone.
func (e *Error) Is(target error) bool { return e.Gone && target == ErrGone }
