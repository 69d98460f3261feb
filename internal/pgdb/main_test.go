package pgdb_test

import (
	"testing"

	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }
