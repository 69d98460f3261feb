package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/wI2L/jsondiff"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// Patch is a JSON Patch (RFC 6902) from one image of an object to another; nil stands for no object.
func Patch(before, after []byte, ignore ...string) (jsondiff.Patch, error) {
	patch, err := jsondiff.CompareJSON(change.OrNull(before), change.OrNull(after), jsondiff.Ignores(ignore...), jsondiff.LCS())
	if err != nil {
		return nil, fmt.Errorf("compare two images of an object: %w", err)
	}
	return patch, nil
}

// Bookkeeping are the members that change with every update, as JSON pointers. The server writes them, nobody asks for them.
var Bookkeeping = []string{"/metadata/managedFields", "/metadata/resourceVersion", "/metadata/generation"}

// Line is one changed path, as people write it.
type Line struct {
	Sign byte // + added, - removed, ~ replaced
	Path string
	Text string // the value; of a replacement both, with an arrow between
}

// Lines makes a line of each operation of a patch.
func Lines(patch jsondiff.Patch) (lines []Line) {
	for _, op := range patch {
		line := Line{Path: readable(op.Path)}
		switch op.Type {
		case jsondiff.OperationAdd:
			line.Sign, line.Text = '+', value(op.Value)
		case jsondiff.OperationRemove:
			line.Sign, line.Text = '-', value(op.OldValue)
		case jsondiff.OperationReplace:
			line.Sign, line.Text = '~', value(op.OldValue)+" → "+value(op.Value)
		}
		lines = append(lines, line)
	}
	return lines
}

func value(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimRight(b.String(), "\n")
}

// readable writes a JSON pointer as a path: spec.containers[0].image, metadata.labels["app.kubernetes.io/name"].
func readable(pointer string) string {
	var b strings.Builder
	for i, token := range strings.Split(pointer, "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch _, err := strconv.Atoi(token); {
		case i == 0:
		case err == nil || token == "-":
			b.WriteString("[" + token + "]")
		case strings.ContainsAny(token, `./"[] `):
			b.WriteString("[" + value(token) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(token)
		}
	}
	return b.String()
}

func versionOf(object []byte) change.ResourceVersion {
	text, _ := rawjson.Text(rawjson.Member(rawjson.Member(object, "metadata"), "resourceVersion"))
	return change.ResourceVersion(text)
}
