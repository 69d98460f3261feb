//go:build !linux && !darwin

package sqlitefile

import (
	"errors"
	"os"
)

func lock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func IsOwned(string) bool { return false }

func unlock(*os.File) {}

// Free returns more than any limit, since nobody asks the disk here.
func Free(string) int64 { return unknownFree }
