package plain

import (
	"regexp"
	"strings"
)

// hidden matches selectors in a request's URL, and the name of an object in a field selector or in an error about the object.
var hidden = regexp.MustCompile(`((?:label|field)Selector=|metadata\.name!?==?|\(name ")[^\s&"',)\]]+`)

// quoted matches what an error quotes of an object or a record: its key, or the beginning of its bytes.
var quoted = regexp.MustCompile(`((?:repair|object|record (?:key|value|row)|CloudEvent|body:) )?"(?:[^"\\]|\\.)*"( is not in the wire format)?`)

// oneLine joins the lines of a text.
var oneLine = strings.NewReplacer(":\n", ": ", "\n", "; ")

// HideNames hides selectors, and the names and bytes of objects, in the text of an error, and returns it on one line.
func HideNames(text string) string {
	text = quoted.ReplaceAllStringFunc(text, func(match string) string {
		if parts := quoted.FindStringSubmatch(match); parts[1]+parts[2] != "" {
			return parts[1] + `"…"` + parts[2]
		}
		return match
	})
	return Escape(oneLine.Replace(hidden.ReplaceAllString(text, "${1}…")))
}
