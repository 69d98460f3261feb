//go:build !linux

package sqlitefile

import "os"

// lockDatabase locks nothing. On systems other than Linux, such a lock may exclude SQLite's own locks.
func lockDatabase(string) (*os.File, error) { return nil, nil }
