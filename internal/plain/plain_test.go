package plain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"kubecdc/internal/plain"
	"kubecdc/test/hostile"
)

func TestWhatOthersWroteIsEscaped(t *testing.T) {
	for _, c := range append(hostile.Names(), hostile.Contents()...) {
		for what, text := range map[string]string{"Escape": plain.Escape(c.Text), "Sprintf": string(plain.Sprintf("%v", errors.New(c.Text))),
			"Lines": strings.ReplaceAll(plain.Lines(c.Text), "\n", ""), "quoted": string(plain.Sprintf("%-30.100q", c.Text))} {
			if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }); i >= 0 {
				t.Errorf("%s of %s leaves %q", what, c.What, text[i:])
			}
		}
		if plain.Escape(plain.Escape(c.Text)) != plain.Escape(c.Text) {
			t.Errorf("%s is escaped twice", c.What)
		}
	}
	var b bytes.Buffer
	_, _ = plain.Fprintf(&b, "%s\t%5d|%s|%-6s|%v\n", plain.Own("\x1b[1mour\nown\x1b[0m"), 7, "a\tb\x1b", "é", []string{"x\ny"})
	if want := "\x1b[1mour\nown\x1b[0m\t    7|a\\tb\\u001b|é     |[x\\ny]\n"; b.String() != want {
		t.Errorf("printed is %q, not %q", b.String(), want)
	}
	if got := plain.Escape("\xffé\U000e0001\u00a0\ufffd"); got != `\xffé\udb40\udc01\u00a0`+"\ufffd" {
		t.Errorf("escaped is %q", got)
	}
}

func TestJSONMeansTheSame(t *testing.T) {
	for _, c := range hostile.Contents() {
		got := plain.JSON([]byte(c.Text))
		if decoded(t, got) != decoded(t, []byte(c.Text)) {
			t.Errorf("%s is another JSON: %.200s", c.What, got)
		}
		if i := bytes.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%s leaves %q", c.What, got[i:])
		}
	}
}

func decoded(t *testing.T, text []byte) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("%#v", v)
}
