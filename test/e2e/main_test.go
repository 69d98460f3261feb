package e2e

import (
	"testing"

	"kubecdc/test/servers"
)

func TestMain(m *testing.M) {
	servers.AtOnce(8)
	Main(m)
}
