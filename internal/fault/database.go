package fault

import (
	"errors"
	"fmt"
)

// ErrGone means that tables were dropped or emptied since the database was opened.
var ErrGone = errors.New("the tables are gone, or were emptied")

// Database is the error of a failed call to a database of the checkpoint or of the log. It says what was tried, on which
// database, why it failed, and what the user can do.
type Database struct {
	Op    string // "commit batch 7 of slot 2"
	Where string // the database, without the password, or the file
	Err   error
	Hint  string // what the user can do, or empty
	Full  bool   // the disk is full
	Gone  bool   // it is an ErrGone: the exporter opens both ends anew
	// Transient says that the failure may end by itself: the database can't be reached, is starting, or is overloaded. A start
	// waits for that.
	Transient bool
}

func (e *Database) Error() string {
	text := fmt.Sprintf("%s in %s: %v", e.Op, e.Where, e.Err)
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

func (e *Database) Unwrap() error { return e.Err }

// Is makes it an ErrGone.
func (e *Database) Is(target error) bool { return e.Gone && target == ErrGone }

// NewerTables returns the error about tables that were made by a release that knows more migrations than this one.
func NewerTables(current, known int) error {
	return fmt.Errorf("the tables are of version %d, made by a newer release, and this one knows up to version %d: "+
		"run the newer release", current, known)
}

// OlderTablesError is about tables that were made by a release that knows fewer migrations than this one, or not yet.
type OlderTablesError struct{ Current, Known int }

func (e *OlderTablesError) Error() string {
	return fmt.Sprintf("the tables are of version %d, made by an older release or not yet, and this one has version %d: "+
		"exporter run of this release brings them up to date", e.Current, e.Known)
}

// InUseError means that another process owns the file.
type InUseError struct{ Path string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("the file %s is in use by another process: stop it, or set KUBECDC_CHECKPOINT to another file, or to a "+
		"postgres:// database, which many processes can share", e.Path)
}
