package e2e

import (
	"testing"

	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }
