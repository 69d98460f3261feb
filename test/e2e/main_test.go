package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(tests{m}) }

// tests runs them, and removes the exporter that was built for them.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	if binary != "" {
		_ = os.RemoveAll(filepath.Dir(binary))
	}
	return code
}
