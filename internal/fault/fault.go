// Package fault asks of errors what package errors has no function for.
package fault

import "errors"

// Is reports whether an error is of a type, or wraps one.
func Is[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
