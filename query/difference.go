package query

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/wI2L/jsondiff"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// Patch is a JSON Patch (RFC 6902) from one image of an object to another; nil stands for no object.
func Patch(before, after []byte) (jsondiff.Patch, error) {
	patch, err := jsondiff.CompareJSON(change.OrNull(before), change.OrNull(after), jsondiff.LCS(), jsondiff.UnmarshalFunc(decodeExactly))
	if err != nil {
		return nil, fmt.Errorf("compare two images of an object: %w", err)
	}
	return patch, nil
}

// decodeExactly decodes JSON with its numbers as they are written: a float64 would round large ones.
func decodeExactly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

func versionOf(object []byte) change.ResourceVersion {
	text, _ := rawjson.Text(rawjson.Member(rawjson.Member(object, "metadata"), "resourceVersion"))
	return change.ResourceVersion(text)
}
