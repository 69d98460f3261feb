package change

import (
	"encoding/json"
	"fmt"
)

// StubAnnotation marks an object in a record as a stand-in for one that was too large. Its value is the size of
// the whole object in bytes.
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

// Stub gives the smallest object that can stand for image in a record: what it is and which revision. A
// consumer that insists on a before and an after image (Flink does) reads it as any other object. It is made
// from image alone, so the stub of one revision is the same as an after image and as the next before image:
// what a consumer was told to add is what it is told to take back.
func Stub(image []byte) ([]byte, error) {
	if image == nil {
		return nil, nil
	}
	var s stub
	if err := json.Unmarshal(image, &s); err != nil {
		return nil, fmt.Errorf("make a stub of an object of %d bytes: %w", len(image), err)
	}
	s.Metadata.Annotations = map[string]string{StubAnnotation: fmt.Sprint(len(image))}
	return json.Marshal(s)
}
