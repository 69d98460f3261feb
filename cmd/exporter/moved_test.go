package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/child"
)

// Scales have no time. A time given as a duration is moved to before those around it, and the answer names it. One that is given exactly is refused
// by the object's name, unless another object is asked for.
func TestADurationIsMovedToACertainMoment(t *testing.T) {
	home := t.TempDir()
	mustDo(t, os.Mkdir(filepath.Join(home, "kubecdc"), 0o700))
	begun := time.Now().Add(-2 * time.Minute).Truncate(time.Second)
	writeScales(t, filepath.Join(home, "kubecdc", "mine-sqlite.db"), begun)
	ask := func(line string) string {
		c := exec.Command(os.Args[0], strings.Fields(line)...)
		c.Env = append(child.Environ(), "TEST_AS_EXPORTER=1", "XDG_STATE_HOME="+home, "KUBECDC_CLUSTER=mine", "KUBECDC_SINK=sqlite")
		text, _ := c.CombinedOutput()
		return string(text)
	}
	last := begun.Add(80 * time.Second).Truncate(time.Second).UTC() // the first scale is 0.5 s after it
	for line, want := range map[string]string{
		"diff --from 30s deploy":                                               "# --from 30s is " + rfc3339(last.Add(-time.Second)),
		"diff --from 30s --to 20s deploy":                                      "# --to 20s is " + rfc3339(last.Add(-time.Second)),
		"state --at=-30s deploy":                                               "# --at -30s is ",
		"restore --at 30s deploy/web -n shop":                                  "--at " + rfc3339(last.Add(-time.Second)) + " -o yaml",
		"diff deploy --from " + rfc3339(last.Add(10*time.Second)):              "deployments.apps: shop/web was updated (resourceVersion ",
		"state deploy/other -n shop --at " + rfc3339(last.Add(10*time.Second)): "other",
	} {
		if text := ask(line); !strings.Contains(text, want) || strings.Contains(text, "incomplete") != strings.Contains(want, "was updated") {
			t.Errorf("exporter %s: want %s in\n%s", line, want, text)
		}
	}
}

func rfc3339(t time.Time) string { return t.Format(time.RFC3339) }

// writeScales writes a log of two minutes, in whose last third a Deployment is scaled twice a second.
func writeScales(t *testing.T, path string, now time.Time) { writeScalesOf(t, path, "mine", now) }

// writeScalesOf is writeScales with the cluster's name, and control records that come after the first list.
func writeScalesOf(t *testing.T, path, cluster string, now time.Time, more ...change.Control) {
	file, err := sqlitefile.Own(t.Context(), path)
	mustDo(t, err)
	defer file.Close()
	sink, err := sqlite.New(t.Context(), file, sqlite.Config{Cluster: cluster, ClusterUID: cluster})
	mustDo(t, err)
	opened, err := sink.Open(t.Context(), 0, 1, sinks.Durable{New: true})
	mustDo(t, err)
	defer opened.Log.Close()
	deployments := change.NewStream(change.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}, "", "", "")
	body := func(name string, version int) []byte {
		return fmt.Appendf(nil, `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":%q,"namespace":"shop","uid":%q,"resourceVersion":"%d"},"spec":{"replicas":%d}}`,
			name, name, version, version)
	}
	write := func(seq int, controls []change.Control, changes ...change.Change) {
		position := change.Position{Stream: deployments.ID(), ResourceVersion: change.VersionOf(uint64(seq)), Time: now}
		_, err := opened.Log.Write(t.Context(), &change.Batch{Epoch: 1, Seq: uint64(seq), Controls: controls, Positions: []change.Position{position}, Changes: changes})
		mustDo(t, err)
	}
	changed := func(op change.Op, name string, version, before int) change.Change {
		c := change.Change{Stream: deployments, Op: op, Namespace: "shop", Name: name, UID: name, ResourceVersion: change.VersionOf(uint64(version)), Time: now,
			After: body(name, version)}
		if before > 0 {
			c.Before = body(name, before)
		}
		return c
	}
	write(1, []change.Control{change.SnapshotBeginControl(deployments.ID(), ""), change.SnapshotEndControl(deployments.ID(), "1", 2)},
		changed(change.Read, "web", 1, 0), changed(change.Read, "other", 1, 0))
	version := 1
	for begun := now; now.Before(begun.Add(2 * time.Minute)); {
		if now = now.Add(500 * time.Millisecond); !now.After(begun.Add(80 * time.Second)) {
			if now.Nanosecond() == 0 {
				version++
				write(version, more)
				more = nil
			}
			continue
		}
		version++
		before := version - 1
		if now.Sub(begun) <= 80*time.Second+500*time.Millisecond {
			before = 1
		}
		write(version, nil, changed(change.Update, "web", version, before))
	}
}

// A zone is said once in an answer, and in an error. On a terminal it is the local one. A local time that clocks showed twice, or not at all, is refused.
func TestAnAnswerHasOneZone(t *testing.T) {
	home := t.TempDir()
	mustDo(t, os.Mkdir(filepath.Join(home, "kubecdc"), 0o700))
	writeScales(t, filepath.Join(home, "kubecdc", "mine-sqlite.db"), time.Now().Add(-2*time.Minute).Truncate(time.Second))
	env := []string{"XDG_STATE_HOME=" + home, "KUBECDC_CLUSTER=mine", "KUBECDC_SINK=sqlite", "TZ=Asia/Kolkata", "PAGER=cat"}
	const clock = `(\w+ \d+ )?\d\d:\d\d:\d\d` // with a date, if that is another day
	exact := rfc3339(time.Now().Add(-20 * time.Second).UTC())
	for line, want := range map[string]string{
		"diff --from 30s deploy":                `--from 30s is ` + clock + `, `,
		"diff --from " + exact + " deploy":      `refused|read late`,
		"state --at " + exact + " deploy/other": `--at ` + exact + ` is ` + clock + `\n`,
		"state --at 10000d deploy":              `no complete list of it by then: the first one ended at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n`,
		"history --since 1h --until 1s":         `--since 1h is ` + clock + `\n(.*\n)*--until 1s is ` + clock + `\n`,
		"history deploy/web":                    `complete since ` + clock,
		"tail --follow=false":                   `^times are local`,
		"restore --at 30s deploy/web -n shop":   `--at 30s is ` + clock + `, `,
	} {
		s := onTerminal(t, 200, env, strings.Fields(line)...)
		s.wait(t)
		text := s.screen()
		if !regexp.MustCompile("(?m)"+want).MatchString(text) || strings.Count(text, "times are local, now UTC+05:30") != 1 ||
			regexp.MustCompile(`\d[Z]\b`).MatchString(strings.ReplaceAll(strings.ReplaceAll(text, "--at "+exact, ""), "--from "+exact, "")) && !strings.HasPrefix(line, "restore") {
			t.Errorf("exporter %s: want %s in\n%s", line, want, text)
		}
	}
	for text, want := range map[string]string{
		"2025-10-26T02:30": "was here twice, since clocks were turned back: write it as 2026-11-22T10:53:56+01:00, here 2025-10-26T02:30:00+02:00 or 2025-10-26T02:30:00+01:00",
		"2025-03-30T02:30": "left out when they were turned forward: write it as 2026-11-22T10:53:56+01:00, here 2025-03-30T03:30:00+02:00 or 2025-03-30T01:30:00+01:00",
	} {
		for _, line := range []string{"state deploy --at", "diff --from", "restore deploy/web --at", "history --since", "history --until", "tail --since", "kubeconfig --at"} {
			c := exec.Command(os.Args[0], append(strings.Fields(line), text)...)
			c.Env = append(append(child.Environ(), "TEST_AS_EXPORTER=1"), append(env, "TZ=Europe/Berlin")...)
			if got, _ := c.CombinedOutput(); !strings.Contains(string(got), want) {
				t.Errorf("exporter %s %s: %s, want %s", line, text, got, want)
			}
		}
	}
}
