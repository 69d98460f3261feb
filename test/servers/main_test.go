package servers_test

import (
	"testing"

	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
