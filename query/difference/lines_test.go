package difference_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"kubecdc/query/difference"
	"kubecdc/test/hostile"
)

// text returns the lines as tests show them: removed text in [- -], new text in {+ +}.
func text(lines []difference.Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.TrimRight(string(l.Sign)+" "+l.Path, " ") + ":")
		for _, p := range l.Parts {
			switch p.Sign {
			case '-':
				b.WriteString(" [-" + p.Text + "-]")
			case '+':
				b.WriteString(" {+" + p.Text + "+}")
			default:
				b.WriteString(" " + p.Text)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Each case has two images of an object, with ---- between, and the lines that a changelog shows for them.
func TestLinesTellWhatDiffers(t *testing.T) {
	datadriven.RunTest(t, filepath.Join("testdata", "lines"), func(t *testing.T, d *datadriven.TestData) string {
		before, after, _ := strings.Cut(d.Input, "\n--\n")
		lines, err := difference.Lines([]byte(before), []byte(after), d.HasArg("all"))
		if err != nil {
			return err.Error() + "\n"
		}
		return text(lines)
	})
}

// Whatever an object contains, there are lines if it differs, and none if it does not.
func TestLinesOfHostileContents(t *testing.T) {
	for _, was := range hostile.Contents() {
		for _, becomes := range hostile.Contents() {
			lines, err := difference.Lines(content(t, was), content(t, becomes), true)
			if err != nil || (len(lines) > 0) != (was.Text != becomes.Text) {
				t.Errorf("from %s to %s: %d lines, %v", was.What, becomes.What, len(lines), err)
			}
		}
	}
}

func content(t *testing.T, c hostile.Case) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{"text": c.Text, "raw": json.RawMessage(c.Text)})
	must(t, err)
	return body
}

// Long texts and lists are compared in a moment. Parts with too little in common to be compared are shown as replaced.
func TestLinesOfLongTexts(t *testing.T) {
	body := func(text, list string) []byte {
		lines := strings.Repeat(text+"\\n", 61_000)
		return []byte(`{"words":"` + strings.Repeat(text+" ", 200_000) + `","lines":"first\n` + lines + `last","list":[` +
			strings.Repeat(`"`+list+`",`, 20_000) + `0]}`)
	}
	for _, tc := range []struct{ was, now, want string }{
		{string(body("a", "a")), string(body("b", "b")), "~ lines:\n: first\n~: replaced: 61,000 lines\n: last\n" +
			"~ list: replaced: 20,000 items\n~ words: replaced: 400,000 characters\n"},
		{`{"list":[` + strings.Repeat(`"a",`, 20_000) + `0]}`, `{"list":[` + strings.Repeat(`"b",`, 30_000) + `0]}`,
			"~ list: replaced: 20,000 items by 30,000\n"},
		{string(body("a", "a")), strings.Replace(string(body("a", "a")), `"a",0]`, `"a","b",0]`, 1), `+ list[20000]: {+"b"+}` + "\n"},
	} {
		lines, err := difference.Lines([]byte(tc.was), []byte(tc.now), true)
		if got := text(lines); err != nil || got != tc.want {
			t.Errorf("%.2000s, want %s; %v", got, tc.want, err)
		}
	}
}
