package query

import (
	"fmt"

	"github.com/wI2L/jsondiff"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// Patch is a JSON Patch (RFC 6902) from one image of an object to another; nil stands for no object.
func Patch(before, after []byte) (jsondiff.Patch, error) {
	patch, err := jsondiff.CompareJSON(change.OrNull(before), change.OrNull(after), jsondiff.LCS())
	if err != nil {
		return nil, fmt.Errorf("compare two images of an object: %w", err)
	}
	return patch, nil
}

func versionOf(object []byte) change.ResourceVersion {
	text, _ := rawjson.Text(rawjson.Member(rawjson.Member(object, "metadata"), "resourceVersion"))
	return change.ResourceVersion(text)
}
