package child_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kubecdc/test/child"
	"kubecdc/test/require"
)

// TestMain is also the parent that the test kills: it starts a child, says its pid, and waits.
func TestMain(m *testing.M) {
	if os.Getenv("CHILD_TEST_PARENT") == "" {
		os.Exit(m.Run())
	}
	sleep := exec.Command("sleep", "60")
	if _, err := child.Start(sleep); err != nil {
		panic(err)
	}
	os.Stdout.WriteString(strconv.Itoa(sleep.Process.Pid) + "\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestAChildDiesWithAParentThatIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a parent-death signal")
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "CHILD_TEST_PARENT=1")
	_, err := parent.StdinPipe() // stays open
	check(t, err)
	out, err := parent.StdoutPipe()
	check(t, err)
	check(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	pid, err := strconv.Atoi(line[:len(line)-1])
	check(t, err)
	check(t, parent.Process.Kill())
	_ = parent.Wait()
	deadline := time.Now().Add(10 * time.Second)
	for !gone(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlives its parent", pid)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

// gone: also when nobody has taken its exit code yet.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestWaitSaysHowAChildEnded(t *testing.T) {
	c, err := child.Start(exec.Command("sh", "-c", "exit 3"))
	check(t, err)
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("ended with %v, want exit code 3", err)
	}
	if c.Running() {
		t.Error("a child that has ended is said to run")
	}
	c.Kill() // does nothing
}

func TestWhatDoesNotExistIsNotStarted(t *testing.T) {
	if _, err := child.Start(exec.Command("/no/such/program")); err == nil {
		t.Error("no error")
	}
}

var check = require.NoError
