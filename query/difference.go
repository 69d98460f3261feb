package query

import (
	"bytes"
	"encoding/json"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// decodeExactly decodes JSON and keeps its numbers as text, since a float64 would round large ones.
func decodeExactly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

func versionOf(object []byte) change.ResourceVersion {
	text, _ := rawjson.Text(rawjson.Member(rawjson.Member(object, "metadata"), "resourceVersion"))
	return change.ResourceVersion(text)
}
