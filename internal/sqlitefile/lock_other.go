//go:build !linux && !darwin

package sqlitefile

import (
	"errors"
	"os"
)

func lock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func unlock(*os.File) {}
