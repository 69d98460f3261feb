package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// licenses returns the licences that the modules declare, as SPDX expressions by path@version. What a file says beside known licences
// must be little, or nothing is said of the module.
func licenses(modules []*debug.Module) (map[string]string, error) {
	download := []string{"mod", "download", "-json"}
	for _, m := range modules {
		download = append(download, m.Path+"@"+m.Version)
	}
	out, err := exec.Command("go", download...).Output()
	if err != nil {
		return nil, fmt.Errorf("find the files of the modules: go mod download: %w", err)
	}
	declared := map[string]string{}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Version, Dir string }
		if err := list.Decode(&m); errors.Is(err, io.EOF) {
			return declared, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what go mod download prints: %w", err)
		}
		for _, name := range []string{"LICENSE", "LICENSE.txt", "LICENSE.md"} {
			text, _ := os.ReadFile(filepath.Join(m.Dir, name)) // no file has no licence
			if found := licensecheck.Scan(text); found.Percent > 80 {
				var ids []string
				for _, match := range found.Match {
					ids = append(ids, match.ID)
				}
				slices.Sort(ids)
				declared[m.Path+"@"+m.Version] = strings.Join(slices.Compact(ids), " AND ")
			}
		}
	}
}
