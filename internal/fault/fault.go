// Package fault has the errors that several packages share, and asks of errors what package errors has no function for. It knows
// no driver: the package of each database says what a failure means, and what the user can do.
package fault

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// Is reports whether an error is of a type, or wraps one.
func Is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// named is an error whose text has names, and its text without them.
type named struct {
	error
	public string
}

func (e *named) Unwrap() error { return e.error }

// WithPublic gives an error a public form.
func WithPublic(err error, public string) error { return &named{err, public} }

// ownPort matches this side's address of a connection. Some errors have it in a text of theirs, as a net.DNSError has.
var ownPort = regexp.MustCompile(`\S+->`)

// Public returns an error's text without what was requested, for which stream, and from which port. So all that fails for one
// cause has one text.
func Public(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*named](err); ok {
		text = strings.Replace(text, e.Error(), e.public, 1)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		text = strings.Replace(text, e.Error(), e.Err.Error(), 1)
	}
	return ownPort.ReplaceAllString(text, "")
}
