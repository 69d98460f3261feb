package serve

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// media is how an answer is written: as JSON, as JSON for people to read, or as YAML.
type media struct {
	isYAML, isPretty bool
	kind             string // the parameters of the type, which name a form of discovery
}

// wantsPretty reports whether a client wants JSON for people. An API server also takes some programs for people.
func wantsPretty(r *http.Request) bool {
	if asked := r.URL.Query().Get("pretty"); asked != "" {
		isPretty, _ := strconv.ParseBool(asked)
		return isPretty
	}
	return slices.ContainsFunc([]string{"curl", "Wget", "Mozilla/5.0"},
		func(program string) bool { return strings.HasPrefix(r.UserAgent(), program) })
}

// largestYAML is the maximum size in bytes of JSON that is written as YAML, which takes many times as much memory.
const largestYAML = 512 << 10

var converting sync.Mutex // since each takes much memory

// encoder writes an answer in the requested form. It gets the answer as JSON, part by part. Close ends it.
type encoder struct {
	media
	to   http.ResponseWriter
	code int
	out  []byte // is not sent yet

	depth                      int
	inText, isEscaped, isFirst bool
}

// encoder returns the encoder of an answer. It sends the head, for YAML when all can be sent.
func (m media) encoder(w http.ResponseWriter, code int) *encoder {
	e := &encoder{media: m, to: w, code: code}
	if !m.isYAML {
		e.head("application/json")
	}
	return e
}

func (e *encoder) head(kind string) {
	e.to.Header().Set("Content-Type", kind+e.kind)
	e.to.WriteHeader(e.code)
}

func (e *encoder) Write(part []byte) (int, error) {
	if e.isYAML {
		if e.out = append(e.out, part...); len(e.out) > largestYAML {
			return 0, refusal(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
				"the answer is too large for YAML: ask for application/json, or set a limit")
		}
		return len(part), nil
	}
	if !e.isPretty {
		return e.to.Write(part)
	}
	e.out = e.out[:0]
	for _, c := range part {
		e.indent(c)
	}
	_, err := e.to.Write(e.out)
	return len(part), err
}

func (e *encoder) Close() error {
	if !e.isYAML {
		return nil
	}
	converting.Lock()
	text, err := yaml.JSONToYAML(e.out)
	converting.Unlock()
	if err == nil {
		e.head("application/yaml")
		_, err = e.to.Write(text)
	}
	return err
}

// indent adds a byte as json.Indent does.
func (e *encoder) indent(c byte) {
	isEnd, isSpace := c == '}' || c == ']', c <= ' '
	switch {
	case e.inText:
		e.inText, e.isEscaped = e.isEscaped || c != '"', !e.isEscaped && c == '\\'
		e.out = append(e.out, c)
		return
	case isSpace:
		return
	case isEnd:
		e.depth--
	}
	if isEnd != e.isFirst {
		e.newLine()
	}
	e.out = append(e.out, c)
	switch e.isFirst = c == '{' || c == '['; c {
	case '{', '[':
		e.depth++
	case '"':
		e.inText = true
	case ',':
		e.newLine()
	case ':':
		e.out = append(e.out, ' ')
	}
}

func (e *encoder) newLine() {
	e.out = append(append(e.out, '\n'), strings.Repeat("  ", e.depth)...)
}
