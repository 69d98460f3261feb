package e2e

import (
	"bufio"
	"slices"
	"strings"
	"testing"
)

// One tail follows two clusters of one database. Each change comes below its cluster's name.
func TestSeveralClustersOfADatabaseAreFollowed(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	names := []string{"prod-eu", "prod-us"}
	for _, cluster := range append(names, "staging") {
		StartExporter(t, cluster, w.With("KUBECDC_SINK", "postgres", "KUBECDC_CLUSTER", cluster, "KUBECDC_RESOURCES", "configmaps")).AwaitReady(t)
	}
	tail := Command(t, w.With("KUBECDC_SINK", "postgres"), "tail", "configmaps", "-n", "1", "--cluster", "prod-*")
	out, err := tail.StdoutPipe()
	must(t, err)
	must(t, tail.Start())
	defer func() { _ = tail.Process.Kill(); _ = tail.Wait() }()
	writer := w.Writer(t, []Kind{ConfigMaps})
	shown := map[string]int{}
	cluster, made := "", ""
	for lines := bufio.NewScanner(out); (shown["prod-eu"] == 0 || shown["prod-us"] == 0) && lines.Scan(); {
		if name, isTitle := strings.CutPrefix(lines.Text(), "# cluster "); isTitle {
			if cluster = name; !slices.Contains(names, name) {
				t.Fatalf("the tail shows cluster %q", name)
			}
			if made == "" && len(shown) == 0 {
				made = string(writer.mark(ConfigMaps))
			}
		}
		if strings.Contains(lines.Text(), made) && made != "" {
			shown[cluster]++
		}
	}
	if shown["prod-eu"] != 1 || shown["prod-us"] != 1 {
		t.Errorf("the change %s was shown %v", made, shown)
	}
}
