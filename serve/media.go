package serve

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

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
	return slices.ContainsFunc([]string{"curl", "Wget", "Mozilla/5.0"}, func(program string) bool { return strings.HasPrefix(r.UserAgent(), program) })
}

// encoder returns a writer of an answer's JSON, which Close ends. It sends the head, for YAML when all can be sent.
func (m media) encoder(w http.ResponseWriter, code int) io.WriteCloser {
	if m.isYAML {
		return &yamlEncoder{to: w, code: code, kind: m.kind}
	}
	w.Header().Set("Content-Type", "application/json"+m.kind)
	w.WriteHeader(code)
	if m.isPretty {
		return &indenter{to: w}
	}
	return plainEncoder{w}
}

type plainEncoder struct{ io.Writer }

func (plainEncoder) Close() error { return nil }

// largestYAML is the maximum size in bytes of JSON that is written as YAML, which takes many times as much memory.
const largestYAML = 4 << 20

type yamlEncoder struct {
	to   http.ResponseWriter
	code int
	kind string
	json bytes.Buffer
}

var converting sync.Mutex // since each takes much memory

func (e *yamlEncoder) Write(part []byte) (int, error) {
	if e.json.Len()+len(part) > largestYAML {
		return 0, refusal(http.StatusNotAcceptable, "NotAcceptable", "the answer is too large for YAML: ask for application/json, or set a limit")
	}
	return e.json.Write(part)
}

func (e *yamlEncoder) Close() error {
	converting.Lock()
	text, err := yaml.JSONToYAML(e.json.Bytes())
	converting.Unlock()
	if err == nil {
		e.to.Header().Set("Content-Type", "application/yaml"+e.kind)
		e.to.WriteHeader(e.code)
		_, err = e.to.Write(text)
	}
	return err
}

// indenter indents JSON as json.Indent does, part by part.
type indenter struct {
	to                         io.Writer
	out                        []byte
	depth                      int
	inText, isEscaped, isFirst bool
}

func (i *indenter) Write(part []byte) (int, error) {
	i.out = i.out[:0]
	for _, c := range part {
		i.add(c)
	}
	if _, err := i.to.Write(i.out); err != nil {
		return 0, err
	}
	return len(part), nil
}

func (i *indenter) Close() error { return nil }

func (i *indenter) add(c byte) {
	if i.inText {
		i.out = append(i.out, c)
		i.inText, i.isEscaped = i.isEscaped || c != '"', !i.isEscaped && c == '\\'
		return
	}
	if isEnd := c == '}' || c == ']'; isEnd {
		if i.depth--; !i.isFirst {
			i.newLine()
		}
		i.isFirst = false
	} else if i.isFirst && c > ' ' {
		i.newLine()
		i.isFirst = false
	}
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '{', '[':
		i.depth++
		i.isFirst = true
	case '"':
		i.inText = true
	}
	if i.out = append(i.out, c); c == ',' {
		i.newLine()
	} else if c == ':' {
		i.out = append(i.out, ' ')
	}
}

func (i *indenter) newLine() {
	i.out = append(append(i.out, '\n'), strings.Repeat("  ", i.depth)...)
}
