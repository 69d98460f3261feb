package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// license is what a module declares.
type license struct {
	expression string // SPDX expression, or empty: the file has much text that is no known licence
	text       []byte
	notice     []byte // what the Apache licence wants to travel with it
}

// licenses reads the licences of modules, by path@version. All must have one.
func licenses(modules []*debug.Module) (map[string]license, error) {
	download := []string{"mod", "download", "-json"}
	for _, m := range modules {
		download = append(download, m.Path+"@"+m.Version)
	}
	out, err := exec.Command("go", download...).Output()
	if err != nil {
		return nil, fmt.Errorf("find the files of the modules: go mod download: %w", err)
	}
	declared := map[string]license{}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Version, Dir string }
		if err := list.Decode(&m); errors.Is(err, io.EOF) {
			return declared, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what go mod download prints: %w", err)
		}
		l, err := readLicense(m.Dir)
		if err != nil {
			return nil, fmt.Errorf("the licence of %s %s, which must travel with the binaries: %w", m.Path, m.Version, err)
		}
		declared[m.Path+"@"+m.Version] = l
	}
}

func readLicense(dir string) (l license, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return l, err
	}
	for _, f := range files {
		name := strings.ToLower(f.Name())
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) && f.Type().IsRegular() }
		var text []byte
		if begins("license") || begins("licence") || begins("copying") || begins("notice") {
			text, err = os.ReadFile(filepath.Join(dir, f.Name()))
		}
		if err != nil {
			return l, err
		}
		if begins("notice") {
			l.notice = append(l.notice, text...)
		} else {
			l.text = append(l.text, text...)
		}
	}
	if len(l.text) == 0 {
		return l, fmt.Errorf("%s has no LICENSE", dir)
	}
	if found := licensecheck.Scan(l.text); found.Percent > 80 {
		var ids []string
		for _, match := range found.Match {
			ids = append(ids, match.ID)
		}
		slices.Sort(ids)
		l.expression = strings.Join(slices.Compact(ids), " AND ")
	}
	return l, nil
}

// notices returns the text that travels with image and binaries: the exporter's licence, and the licences of all that is linked into it.
func (r *release) notices(binaries []binary) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	goRoot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go's own licence: %w", err)
	}
	goLicense, err := readLicense(strings.TrimSpace(string(goRoot)))
	if err != nil {
		return nil, fmt.Errorf("read Go's own licence: %w", err)
	}
	var modules []*debug.Module
	for _, b := range binaries {
		modules = append(modules, b.modules()...)
	}
	all, err := licenses(modules)
	if err != nil {
		return nil, err
	}
	all["Go"] = goLicense
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text = fmt.Appendf(text, "\n%s\n%s\n\n%s%s", strings.Repeat("=", 80), name, all[name].text, all[name].notice)
	}
	return text, nil
}
