package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"

	"kubecdc/change"
)

// line is one line of JSON that a program reads from a pipe.
type line struct {
	Before, After json.RawMessage
	Op            string
	Source        struct {
		Schema, Table, Group, UID, ResourceVersion string
		Inferred                                   bool
	}

	// These describe an object that could not be read.
	Type, Stream, Reason, Text string
}

// ParseLines parses the output of KUBECDC_SINK=stdout to a pipe as if it were topics. malformed has the lines of objects that could
// not be read.
func ParseLines(t testing.TB, out []byte, prefix string) (log *Log, malformed []line) {
	t.Helper()
	log = &Log{}
	scanner := bufio.NewScanner(bytes.NewReader(out))
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		if !json.Valid(scanner.Bytes()) {
			break // the last line is not complete yet
		}
		var l line
		must(t, json.Unmarshal(scanner.Bytes(), &l))
		switch l.Type {
		case "":
			log.Records = append(log.Records, withTombstone(l.record(t, prefix))...)
		case "malformed":
			malformed = append(malformed, l)
		default:
			var c change.Control
			must(t, json.Unmarshal(scanner.Bytes(), &c))
			log.Controls = append(log.Controls, c)
		}
	}
	return log, malformed
}

func (l *line) record(t testing.TB, prefix string) Record {
	var object struct{ Metadata struct{ Name string } }
	shown := l.After
	if l.Op == "d" {
		shown = l.Before
	}
	must(t, json.Unmarshal(shown, &object))
	return Record{Topic: change.Topic(prefix, change.Resource{Group: l.Source.Group, Plural: l.Source.Table}), Op: l.Op,
		Key: change.ObjectKey(l.Source.Schema, object.Metadata.Name), UID: l.Source.UID, Version: change.ResourceVersion(l.Source.ResourceVersion),
		Inferred: l.Source.Inferred, Before: l.Before, After: l.After}
}
