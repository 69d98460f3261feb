package past

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"kubecdc/change"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/query"
	"kubecdc/sinks"
)

// A history in YAML has the same documents as in JSON.
func TestAHistoryInYAMLIsTheOneInJSON(t *testing.T) {
	stream := change.NewStream(change.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}, "", "", "")
	history := func(format, separator string) []string {
		var out bytes.Buffer
		p := &printer{flags: &pastFlags{Output: cli.Output{Format: format}}, events: query.EventMaker{Remember: true}}
		for i, body := range []string{`{"data":{"a":"1"}}`, `{"data":{"a":"yes","b":"2026-11-22"}}`} {
			l := &sinks.Logged{Logged: time.Unix(100, 0), Change: change.Change{Stream: stream, Op: change.Create, Namespace: "default", Name: "app",
				UID: "u", ResourceVersion: change.VersionOf(uint64(10 + i)), Time: time.Unix(99, 0), After: []byte(body)}}
			if i > 0 {
				l.Op, l.Inferred, l.Gap = change.Update, true, "configmaps:10"
			}
			out.WriteString(printed(t, p, l))
		}
		return strings.Split(out.String(), separator)
	}
	lines, documents := history("json", "\n"), history("yaml", "---\n")[1:]
	if len(documents) != 2 {
		t.Fatalf("%d documents", len(documents))
	}
	for i, document := range documents {
		var want, got map[string]any
		must(t, json.Unmarshal([]byte(lines[i]), &want))
		if err := yaml.Unmarshal([]byte(document), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\n%s\nwant %s", err, document, lines[i])
		}
	}
}

// livesLog is a log that gets more changes while it is followed.
type livesLog struct {
	sinks.Reader
	past, next []sinks.Logged
}

func (livesLog) Resources(context.Context) ([]string, error) { return nil, nil }

func (l livesLog) Changes(_ context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	all := l.past
	if q.Follow {
		all = l.next
	}
	for i := range all {
		if err := visit(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// If the log has no before-images, the object's last state replaces them. That holds for its deletion, even if another object has
// its name since, and for later changes.
func TestAHistoryWithoutImagesSeparatesLives(t *testing.T) {
	logged := func(op change.Op, uid string, version uint64, data string) sinks.Logged {
		minute := time.Unix(int64(version), 0)
		l := sinks.Logged{Logged: minute, Change: change.Change{Stream: change.ParseStream("configmaps"), Op: op, Namespace: "shop", Name: "app",
			UID: uid, ResourceVersion: change.VersionOf(version), Time: minute}}
		if op != change.Delete {
			l.After = []byte(`{"data":{"a":"` + data + `"}}`)
		}
		return l
	}
	log := livesLog{past: []sinks.Logged{logged(change.Create, "u-1", 1, "1"), logged(change.Delete, "u-1", 2, ""), logged(change.Create, "u-2", 3, "2")},
		next: []sinks.Logged{logged(change.Update, "u-2", 4, "3")}}
	p := history{changes: changes{printer: *printing(t, "diff", "never"), follow: true, refreshed: time.Now().Add(time.Hour)}}
	p.Format, p.events.Remember = "diff", true
	p.labelled, _ = new(sinks.Objects).Labelled()
	var out bytes.Buffer
	c := &cobra.Command{}
	c.SetOut(&out)
	past, err := p.past(t.Context(), c, log, sinks.Query{})
	if err == nil {
		err = p.print(t.Context(), c, log, sinks.Query{}, past)
	}
	must(t, err)
	if got := out.String(); strings.Contains(got, "does not have the object") || !strings.HasSuffix(got, "  ~ data.a: \"2\" → \"3\"\n") {
		t.Error(got)
	}
}
