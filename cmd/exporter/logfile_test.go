package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kubecdc/change"
	checkpoint "kubecdc/checkpoint/sqlite"
	"kubecdc/internal/sqlitefile"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// --log names a file, which knows its cluster, whatever the settings say. What does not fit is an error that says what does.
func TestALogIsNamedByItsFile(t *testing.T) {
	folder := t.TempDir()
	one, two := filepath.Join(folder, "one.db"), filepath.Join(folder, "two.db")
	writeScales(t, one, time.Now().Add(-2*time.Minute).Truncate(time.Second))
	for _, cluster := range []string{"a", "b"} {
		writeLog(t, two, cluster)
	}
	mustDo(t, os.WriteFile(filepath.Join(folder, "empty.db"), nil, 0o600))
	for line, want := range map[string]string{
		"state deploy --log " + one:                                        "web",
		"state deploy --at=-90s --log " + one:                              "other",
		"state deploy --cluster mine --log " + one:                         "web",
		"restore --at 100s deploy/web -n shop --log " + one:                "replicas",
		"state deploy --cluster nine --log " + one:                         `has no cluster "nine": did you mean mine?`,
		"state deploy --log " + two:                                        "has several clusters: --cluster must be one of a, b",
		"state deploy --log " + filepath.Join(folder, "none.db"):           "no such file",
		"state deploy --log " + filepath.Join(folder, "empty.db"):          "has no log: exporter logs lists the files that have one",
		"state deploy --sink sqlite --log " + one:                          "--log and --sink both say where the log is: leave one out",
		"state deploy --checkpoint sqlite:" + two + " --log " + one:        "--log and --checkpoint both say where the log is",
		"__complete state --sink ":                                         "postgres",
		"__complete state --log " + one + " deploy -n ":                    "shop",
		"__complete history --log " + one + " deploy --encoding avr --by ": "Completion ended",
	} {
		c := exec.Command(os.Args[0], strings.Fields(line)...)
		if strings.HasSuffix(line, " ") {
			c.Args = append(c.Args, "")
		}
		c.Env = append(child.Environ(), "TEST_AS_EXPORTER=1", "XDG_STATE_HOME="+folder, "KUBECDC_CLUSTER=elsewhere", "KUBECDC_SINK=kafka",
			"KUBECDC_KAFKA_BROKERS=127.0.0.1:1", "KUBECDC_SINK_POSTGRES=postgres://127.0.0.1:1/x", "KUBECDC_CHECKPOINT=postgres://127.0.0.1:1/x")
		if text, _ := c.CombinedOutput(); !strings.Contains(string(text), want) {
			t.Errorf("exporter %s: want %q in\n%s", line, want, text)
		}
	}
}

// --cluster with names and patterns asks each cluster. A cluster whose log is old, or has a gap, says so, and one that does not exist is an
// error. Nothing comes from a cluster that was not asked.
func TestSeveralClustersAreAsked(t *testing.T) {
	folder := t.TempDir()
	file, now := filepath.Join(folder, "all.db"), time.Now().Truncate(time.Second)
	stream := change.NewStream(change.Resource{Group: "apps", Version: "v1", Plural: "deployments"}, "", "", "").ID()
	gap := change.GapControl(stream, "1", change.Gap{Reason: "it was compacted", From: "1", To: "2"}, "")
	state := filepath.Join(folder, "kubecdc")
	mustDo(t, os.Mkdir(state, 0o755))
	for cluster, begins := range map[string]time.Time{"prod-eu": now.Add(-2 * time.Minute), "prod/us": now.Add(-10 * time.Hour), "staging": now.Add(-2 * time.Minute)} {
		var more []change.Control
		if cluster == "staging" {
			more = append(more, gap)
		}
		writeScalesOf(t, file, cluster, begins, more...)
	}
	for _, cluster := range []string{"a", "b"} {
		path := filepath.Join(state, cluster+"-sqlite.db")
		store, err := checkpoint.Open(t.Context(), path)
		mustDo(t, err)
		checkpointtest.Bind(t, store, cluster, cluster)
		store.Close()
		writeLog(t, path, cluster)
	}
	for _, one := range []struct {
		line      string
		code      int
		want, not []string
	}{
		{"state deploy --cluster prod?* --log " + file, 0, []string{"# cluster prod-eu\n", "# cluster prod/us\n# the log ends at "}, []string{"staging"}},
		{"history deploy --op r --cluster st*,prod-eu --log " + file, 0, []string{"# cluster prod-eu\n", "# cluster staging\n", "it was compacted"}, []string{"prod/us"}},
		{"state deploy/web -n shop --cluster prod* -o json --log " + file, 0, []string{`{"cluster":"prod-eu","`, `{"cluster":"prod/us","`}, []string{"staging"}},
		{"history deploy/web -n shop --cluster * -o json --log " + file, 0, []string{`{"cluster":"prod-eu","`, `{"cluster":"prod/us","`, `{"cluster":"staging","`}, nil},
		{"history deploy --since 5m --clock happened --cluster prod* --log " + file, 1, []string{"# cluster prod-eu\n", "exporter: cluster prod/us: the log ends at "}, []string{"cluster prod-eu: "}},
		{"tail -n 3 --follow=false --cluster prod* --log " + file, 0, []string{"# cluster prod-eu\n", "# cluster prod/us\n"}, []string{"staging"}},
		{"diff --from=-110s deploy --cluster prod-eu,staging --log " + file, 1, []string{"# cluster prod-eu\n", "# cluster staging\n", "~ deployments.apps"}, []string{"prod/us"}},
		{"diff --from=-110s deploy --cluster * --log " + file, 2, []string{"~ deployments.apps", "# cluster staging\n", "exporter: cluster prod/us: "}, []string{"exporter: cluster prod-eu"}},
		{"state deploy --cluster prod*,nine --log " + file, 2, []string{`no log is of "nine": there are logs of prod-eu, prod/us, staging`}, []string{"# cluster"}},
		{"state deploy --cluster stagin,prod* --log " + file, 2, []string{`no log is of "stagin": did you mean staging? `}, []string{"# cluster"}},
		{"state deploy --cluster [ --log " + file, 2, []string{"--cluster [: syntax error in pattern: write it as for a shell"}, nil},
		{"state pods --incomplete --cluster a,b", 0, []string{"# cluster a\n", "# cluster b\n"}, nil},
		{"state pods --no-mirror --cluster a,b", 2, []string{"--no-mirror reads topics"}, nil},
		{"state pods --cluster a,b --sink kafka", 1, []string{"which is not there: start exporter serve"}, nil},
		{"state pods --cluster a,b --sink stdout", 2, []string{"can't be read back"}, nil},
	} {
		c := exec.Command(os.Args[0], strings.Fields(one.line)...)
		c.Env = append(child.Environ(), "TEST_AS_EXPORTER=1", "XDG_STATE_HOME="+folder, "KUBECDC_KAFKA_BROKERS=127.0.0.1:1")
		output, _ := c.CombinedOutput()
		text := string(output)
		missing := func(want string) bool { return !strings.Contains(text, want) }
		if c.ProcessState.ExitCode() != one.code || slices.ContainsFunc(one.want, missing) {
			t.Errorf("exporter %s: %d, want %d and %q, not %q, in\n%s", one.line, c.ProcessState.ExitCode(), one.code, one.want, one.not, text)
		}
		for _, not := range one.not {
			if !missing(not) {
				t.Errorf("exporter %s has %q:\n%s", one.line, not, text)
			}
		}
	}
}

// A log that nobody writes any more has an end, which answers name. What an object of it controls need not be in the log.
func TestAnswersNameTheEndOfALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	writeScales(t, path, time.Now().Add(-10*time.Minute).Truncate(time.Second))
	for _, a := range []asked{
		{"history deploy/web -n shop", 0, `^complete since \S+ until \S+, where the log ends`},
		{"history -n shop", 0, `^complete since \S+ until \S+, where the log ends`},
		{"history -n shop --since 1m --clock happened", 1, `^exporter: the log ends at \S+, and has nothing since`},
		{"state deploy --cluster *", 0, `^# cluster mine\nNAMESPACE `},
		{"state deploy", 0, `^complete since \S+ until \S+, where the log ends`},
	} {
		a.line += " --log " + path
		wantTerminal(t, nil, a)
	}
}

// A log that one may only read is read, with and without its owner. File and folder are somebody else's, and nothing is written to them.
func TestALogThatMayOnlyBeReadIsRead(t *testing.T) {
	folder := t.TempDir()
	path, program := filepath.Join(folder, "log.db"), filepath.Join(folder, "exporter")
	mustDo(t, os.Chmod(filepath.Dir(folder), 0o755))
	mustDo(t, os.Link(os.Args[0], program))
	writeScales(t, path, time.Now().Add(-2*time.Minute).Truncate(time.Second))
	ask := func(owner string) {
		before, err := os.ReadDir(folder)
		mustDo(t, err)
		for _, f := range before {
			if strings.HasPrefix(f.Name(), "log.db") {
				mustDo(t, os.Chmod(filepath.Join(folder, f.Name()), 0o444))
			}
		}
		mustDo(t, os.Chmod(folder, 0o555))
		defer func() { mustDo(t, os.Chmod(folder, 0o755)) }()
		for _, line := range []string{"state deploy", "history deploy", "diff --from 100s deploy", "restore --at 100s deploy/web -n shop"} {
			c := exec.Command(program, append(strings.Fields(line), "--log", path)...)
			c.Env = append(child.Environ(), "TEST_AS_EXPORTER=1", "HOME="+folder)
			if os.Getuid() == 0 {
				c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			}
			if text, err := c.CombinedOutput(); !strings.Contains(string(text), "web") || err != nil && c.ProcessState.ExitCode() != 1 {
				t.Errorf("exporter %s, %s: %v %s", line, owner, err, text)
			}
		}
		after, err := os.ReadDir(folder)
		mustDo(t, err)
		if len(after) != len(before) {
			t.Errorf("%s the folder had %v, and has %v", owner, before, after)
		}
	}
	ask("without its owner")
	file, err := sqlitefile.Own(t.Context(), path)
	mustDo(t, err)
	defer file.Close()
	_, err = file.DB().ExecContext(t.Context(), `create table more (a)`)
	mustDo(t, err)
	ask("with its owner")
}

// Who only reads makes no folder.
func TestQuestionsMakeNoFolder(t *testing.T) {
	home := t.TempDir()
	for _, line := range []string{"logs", "state deploy", "history", "checkpoints list", "status", "verify"} {
		c := exec.Command(os.Args[0], strings.Fields(line)...)
		c.Env = append(child.Environ(), "TEST_AS_EXPORTER=1", "XDG_STATE_HOME="+home, "KUBECDC_CLUSTER=mine", "KUBECONFIG="+filepath.Join(home, "none"))
		text, _ := c.CombinedOutput()
		if made, err := os.ReadDir(home); err != nil || len(made) > 0 {
			t.Fatalf("exporter %s made %v (%v): %s", line, made, err, text)
		}
	}
}

// tail goes on when it is asked for what the log does not have, and says so.
func TestTailSaysWhatTheLogDoesNotHave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	writeScales(t, path, time.Now().Add(-2*time.Minute).Truncate(time.Second))
	for line, want := range map[string]string{
		"tail -n shoop":            `# the log has no namespace "shoop": did you mean shop? (it may come)`,
		"tail deploy/webb -n shop": `# the log has no deployments.apps/webb in namespace "shop": did you mean deploy/web -n shop? (it may come)`,
	} {
		c := exec.CommandContext(servers.Context(t), os.Args[0], append(strings.Fields(line), "--log", path)...)
		c.Env = append(child.Environ(), "TEST_AS_EXPORTER=1")
		errs, err := c.StderrPipe()
		mustDo(t, err)
		mustDo(t, c.Start())
		lines := bufio.NewScanner(errs)
		for lines.Scan() && lines.Text() != want {
			t.Logf("exporter %s: %s", line, lines.Text())
		}
		if lines.Text() != want {
			t.Errorf("exporter %s ends without %q", line, want)
		}
		mustDo(t, c.Process.Kill())
		_ = c.Wait()
	}
}
