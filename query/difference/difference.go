// Package difference compares two images of an object: in lines for people, or as a JSON Patch. It knows no log.
package difference

import (
	"bytes"
	"encoding/json"
)

// decodeExactly decodes JSON and keeps its numbers as text, since a float64 would round large ones.
func decodeExactly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}
