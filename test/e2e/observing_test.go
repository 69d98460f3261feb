package e2e

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Metric returns the sum of a metric's values whose labels contain the text.
func (e *Exporter) Metric(t testing.TB, name, labels string) (sum float64) {
	t.Helper()
	text, err := e.get("/metrics")
	must(t, err)
	for _, l := range strings.Split(text, "\n") {
		key, value, _ := strings.Cut(l, " ")
		if metric, rest, _ := strings.Cut(key, "{"); metric == name && strings.Contains(rest, labels) {
			v, _ := strconv.ParseFloat(value, 64)
			sum += v
		}
	}
	return sum
}

// awaitLogged waits for a line of the process's log that has all texts.
func (e *Exporter) awaitLogged(t testing.TB, texts ...string) {
	t.Helper()
	Await(t, fmt.Sprintf("a line of the log of %s with %q", e.name, texts), func() (bool, error) {
		err := e.ended() // before the look, since its last lines count
		if hasLine(string(e.log.Bytes()), texts) {
			return true, nil
		}
		return false, err
	})
}

// awaitWrong waits until /readyz has a line "component: problem" with all texts.
func (e *Exporter) awaitWrong(t testing.TB, texts ...string) {
	t.Helper()
	Await(t, fmt.Sprintf("/readyz of %s to say %q", e.name, texts), func() (bool, error) {
		if err := e.ended(); err != nil {
			return false, err
		}
		return hasLine(e.Wrong(), texts), nil
	})
}

func hasLine(lines string, texts []string) bool {
	return slices.ContainsFunc(strings.Split(lines, "\n"), func(line string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
	})
}

// PeakMemory returns the most memory that the process had resident, in bytes (VmHWM).
func (e *Exporter) PeakMemory(t testing.TB) int64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", e.Cmd.Process.Pid))
	must(t, err)
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		var kb int64
		if n, _ := fmt.Sscanf(scanner.Text(), "VmHWM: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Fatal("the system does not say how much memory the process had")
	return 0
}
