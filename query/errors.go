package query

import (
	"errors"
	"fmt"
)

// IncompleteError lists what an answer may lack.
type IncompleteError struct{ Missing []string }

func (e *IncompleteError) Error() string {
	text := "the log does not have all of it:"
	for i, m := range e.Missing {
		if i == 100 {
			return text + fmt.Sprintf("\n  and %d more", len(e.Missing)-i)
		}
		text += "\n  " + m
	}
	return text
}

// errStop ends a read early.
var errStop = errors.New("enough was read")
