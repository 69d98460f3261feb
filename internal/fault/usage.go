package fault

import "fmt"

// Usage is the error of a wrong command line. Any part of the program may return it. It says what is wrong, and what to write
// instead. The program ends with exit code 2.
type Usage string

func (e Usage) Error() string { return string(e) }

// Usagef returns a Usage.
func Usagef(format string, values ...any) error { return Usage(fmt.Sprintf(format, values...)) }
