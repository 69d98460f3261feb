//go:build !linux && !darwin

package sqlitefile

import "os"

func lock(string) (*os.File, error) { return nil, errNoSharing }
