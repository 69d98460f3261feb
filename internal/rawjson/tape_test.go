package rawjson_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"kubecdc/internal/rawjson"
)

// The tokens of a text are its values and names, each once, and a value is skipped with its contents.
func TestScan(t *testing.T) {
	long := bytes.Repeat([]byte(`{"k":["long enough for more than one word"]},`), 50)
	for _, text := range []string{`{}`, `[]`, `""`, ` 1.5e3 `, `null`, `[[],{},[{}]]`,
		`{"a":{"b":[1,"x\\\"]}",null],"c":{}},"d":"\u00e4","":[]}`,
		"\t{ \"a\" : [ true ,\n{ \"b\" : -1 } ] ,\r\n \"c\" : \"\" }\n", `[` + string(long) + `0]`} {
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(text)); err != nil {
			t.Fatal(err)
		}
		tokens := rawjson.Scan([]rawjson.Token{{}}, []byte(text))
		if got := written(nil, text, tokens, 1); string(got) != want.String() || int(tokens[1].Next) != len(tokens) {
			t.Errorf("%s\nis read as %s: %v", text, got, tokens)
		}
	}
	for _, broken := range []string{``, `{`, `[{"a"`, `]`, `{"a":[1}`, `"`, `{1:2`, `,,:`} {
		for i, token := range rawjson.Scan(nil, []byte(broken)) {
			if int(token.Next) <= i || token.Start >= token.End || int(token.End) > len(broken) {
				t.Errorf("%s: token %d is %+v", broken, i, token)
			}
		}
	}
}

// written writes a value from its tokens.
func written(dst []byte, text string, tokens []rawjson.Token, root int32) []byte {
	t := tokens[root]
	kind := text[t.Start]
	if kind != '{' && kind != '[' {
		return append(dst, text[t.Start:t.End]...)
	}
	dst = append(dst, kind)
	for n, i := 0, root+1; i < t.Next; n, i = n+1, tokens[i].Next {
		if n > 0 && kind == '{' && n%2 == 1 {
			dst = append(dst, ':')
		} else if n > 0 {
			dst = append(dst, ',')
		}
		dst = written(dst, text, tokens, i)
	}
	return append(dst, text[t.End-1])
}
