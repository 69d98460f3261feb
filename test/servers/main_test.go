package servers_test

import (
	"testing"

	"kubecdc/test/require"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var check = require.NoError
