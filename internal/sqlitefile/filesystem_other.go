//go:build !linux

package sqlitefile

import "os"

// lockDatabase locks nothing: elsewhere such a lock may exclude those of SQLite.
func lockDatabase(string) (*os.File, error) { return nil, nil }
