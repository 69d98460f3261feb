package servers_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"kubecdc/test/servers"
)

const ownerEnv = "KUBECDC_TEST_OWNER"

// TestOwner is the process that the next test kills: it starts a server, says
// where, and waits.
func TestOwner(t *testing.T) {
	if os.Getenv(ownerEnv) == "" {
		t.Skip("run by TestServersDieWithTheirOwner only")
	}
	p, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{})
	check(t, err)
	fmt.Println("started", p.Address, p.Dir)
	select {}
}

func TestServersDieWithTheirOwner(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a parent-death signal")
	}
	owner := exec.Command(os.Args[0], "-test.run=^TestOwner$")
	owner.Env = append(os.Environ(), ownerEnv+"=1")
	out, err := owner.StdoutPipe()
	check(t, err)
	check(t, owner.Start())
	address, dir := whereStarted(t, bufio.NewScanner(out))
	check(t, owner.Process.Kill())
	_ = owner.Wait()

	servers.Await(t, "the server of the dead to end", func() (bool, error) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err != nil, nil
	})
	_, err = servers.StartPostgres(t.Context(), servers.PostgresOptions{})
	check(t, err)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s was left behind, and the next start did not clear it away (%v)", dir, err)
	}
}

func whereStarted(t *testing.T, lines *bufio.Scanner) (address, dir string) {
	t.Helper()
	for lines.Scan() {
		if where, ok := strings.CutPrefix(lines.Text(), "started "); ok {
			address, dir, _ = strings.Cut(where, " ")
			return address, dir
		}
	}
	t.Fatal("the owner ended before its server had started")
	return "", ""
}
