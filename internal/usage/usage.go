// Package usage has the error of a command line that can't be meant, whoever finds that out. The program ends with exit code 2.
package usage

import "fmt"

// Error says what is wrong, and what to write instead.
type Error string

func (e Error) Error() string { return string(e) }

// Errorf returns an Error.
func Errorf(format string, values ...any) error { return Error(fmt.Sprintf(format, values...)) }
