// Package fault has the errors that several packages share, and asks of errors what package errors has no function for. It knows no driver:
// the package of each database says what a failure means, and what the user can do.
package fault

import "errors"

// Is reports whether an error is of a type, or wraps one.
func Is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
