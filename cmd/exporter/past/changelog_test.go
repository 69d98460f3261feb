package past

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/query"
	"kubecdc/query/difference"
	"kubecdc/sinks"
	"kubecdc/test/hostile"
	"kubecdc/test/require"
)

var must = require.NoError

var update = flag.Bool("update", false, "write the golden files instead of comparing")

func updated(resource, name, before, after string) *sinks.Logged {
	c := change.Change{Stream: change.ParseStream(change.StreamID(resource)), Op: change.Update, Namespace: "shop", Name: name, UID: "u-1",
		ResourceVersion: "437", Time: time.Unix(1e9, 0), Before: []byte(before), After: []byte(after)}
	c.Provenance.Managers = []byte("kubectl-edit")
	return &sinks.Logged{Change: c, Logged: time.Unix(1e9+1, 0)}
}

// printing returns the printer of a tail.
func printing(t *testing.T, format, colour string) *printer {
	t.Helper()
	c, p := &cobra.Command{}, &pastFlags{colour: colour}
	p.Output.Flag(c, "table", "diff", "wide", "name", "json", "yaml", cli.JSONPath)
	p.Format = format
	must(t, c.PreRunE(c, nil))
	return &printer{flags: p, colours: p.newColours(io.Discard), hasTitles: true, hasBodies: true,
		events: query.EventMaker{NoPatch: format == "diff" || format == "wide"}}
}

func printed(t *testing.T, p *printer, l *sinks.Logged) string {
	t.Helper()
	text, err := p.change(l, nil)
	must(t, err)
	return string(text)
}

// The memory and time of a changelog grow with the number of lines, not with its square.
func TestAChangelogOfManyLines(t *testing.T) {
	const lines = 5000
	p := printing(t, "diff", "never")
	change := updated("configmaps", "web", `{"data":{"text":"a\nb"}}`, `{"data":{"text":"a\n`+strings.Repeat(`one more line of the text\n`, lines)+`b"}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text := printed(t, p, change)
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 50 || strings.Count(text, "\n") < lines {
		t.Errorf("%d lines took %d MB", strings.Count(text, "\n"), mb)
	}
}

// A change in each format, with colours and without.
func TestAChangeIsPrinted(t *testing.T) {
	l := updated("deployments.apps", "web", `{"metadata":{"name":"web","resourceVersion":"436"},"spec":{"replicas":2,"containers":[{"name":"web",
		"command":"exec /usr/local/bin/server --config=/etc/server.yaml --log-level=info --listen=:80"}]},"text":"a\nb\nc","old":true}`,
		`{"metadata":{"name":"web","resourceVersion":"437"},"spec":{"replicas":5,"containers":[{"name":"web",
		"command":"exec /usr/local/bin/server --config=/etc/server.yaml --log-level=debug --listen=:80"}]},"text":"a\nB\nc","new":[1]}`)
	var got strings.Builder
	for _, format := range []string{"diff", "table", "wide", "name", "json", "yaml", "jsonpath={.name} {.after.spec.replicas}"} {
		for _, colour := range []string{"never", "always"} {
			if colour == "always" && format != "diff" {
				continue
			}
			p := printing(t, format, colour)
			fmt.Fprintf(&got, "-o %s --color %s\n%s\n", format, colour, strings.ReplaceAll(printed(t, p, l), "\x1b", "ESC"))
		}
	}
	golden := filepath.Join("testdata", "changes.golden")
	if *update {
		must(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	if want, err := os.ReadFile(golden); err != nil || got.String() != string(want) {
		t.Errorf("differs from %s (%v); to take it over: go test ./cmd/exporter/past -args -update\n%s", golden, err, got.String())
	}
}

// Whatever names and contents objects have, no control character is printed, and no line of their making.
func TestHostileObjectsArePrintedHarmlessly(t *testing.T) {
	contents := hostile.Contents()
	for i, name := range hostile.Names() {
		was, now := contents[i%len(contents)].Text, contents[(i+1)%len(contents)].Text
		l := updated("roles.rbac.authorization.k8s.io", name.Text, was, now)
		for _, format := range []string{"diff", "wide", "name", "json", "jsonpath={.name}{.after}{.patch}"} {
			text, err := printing(t, format, "never").change(l, nil)
			if err != nil && !strings.Contains(err.Error(), "exceeded max depth") {
				t.Errorf("-o %s of %s: %v", format, name.What, err)
			}
			if i := strings.IndexFunc(string(text), func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }); i >= 0 {
				t.Errorf("-o %s of %s prints %.80q", format, name.What, text[i:])
			}
			if strings.Contains(string(text), "\n12:00:00 deleted") {
				t.Errorf("-o %s of %s prints a false line", format, name.What)
			}
		}
	}
	lines := differences(screen.NewColours(false), []difference.Line{{Sign: '~', Path: "a\x1b[2K", Parts: []difference.Part{{Sign: '-', Text: "b\r\n"}}}}, unlimited)
	if lines != plain.Own("  ~ a\\u001b[2K: b\\r\\n\n") {
		t.Errorf("printed is %q", lines)
	}
}
