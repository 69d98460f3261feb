package query

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
