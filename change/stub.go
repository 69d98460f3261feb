package change

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// StubAnnotation marks an object in a record as the stub of one that was too large. Its value is the size of that object in
// bytes.
const StubAnnotation = "kubecdc/dead-letter"

type stub struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   stubMetadata `json:"metadata"`
}

type stubMetadata struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace,omitempty"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

// Stub returns the smallest object that can replace image in a record: its identity and resourceVersion. A consumer that requires
// before- and after-images (Flink does) reads it like any other object. The stub is the state of the object in the log until the
// object's next change. It is the before-image of that change. So a consumer that adds and retracts rows retracts what it has
// added. The stub of a stub is the same.
func Stub(image []byte) ([]byte, error) {
	if image == nil || IsStub(image) {
		return image, nil
	}
	var s stub
	if err := json.Unmarshal(image, &s); err != nil {
		return nil, fmt.Errorf("make a stub of an object of %d bytes: %w", len(image), err)
	}
	s.Metadata.Annotations = map[string]string{StubAnnotation: fmt.Sprint(len(image))}
	return json.Marshal(s)
}

// IsStub reports whether Stub has made the image.
func IsStub(image []byte) bool {
	return bytes.Contains(image[max(len(image)-len(stubEnd)-16, 0):], stubEnd)
}

// stubEnd is the end of a stub, without the number.
var stubEnd = []byte(`"annotations":{"` + StubAnnotation + `":"`)
