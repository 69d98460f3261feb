package servers

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// projectRoot is the folder whose go.mod has "module kubecdc", found by walking up from the working directory.
func projectRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find project root: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if moduleName(filepath.Join(dir, "go.mod")) == "kubecdc" {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find project root: no go.mod of module kubecdc in %s or above", start)
		}
	}
}

func moduleName(gomod string) string {
	f, err := os.Open(gomod)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "module "); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// Dir is the folder that holds everything this package installs and runs.
func Dir() (string, error) {
	if dir := os.Getenv("KUBECDC_SERVERS_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	root, err := projectRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, ".servers"), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
