package change

import (
	"bytes"
	"encoding/json"
	"fmt"

	"kubecdc/internal/rawjson"
)

// DecodeKey parses a key that AppendKey has written.
func DecodeKey(key []byte) (cluster, namespace, name string, err error) {
	var k struct{ Cluster, Namespace, Name string }
	if err := json.Unmarshal(key, &k); err != nil {
		return "", "", "", fmt.Errorf("decode record key %.80q: %w", key, err)
	}
	return k.Cluster, k.Namespace, k.Name, nil
}

// DecodeAfter returns the after-image of a value that AppendValue has written, byte for byte; nil for null.
func DecodeAfter(value []byte) ([]byte, error) {
	var v struct {
		After json.RawMessage `json:"after"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return nil, fmt.Errorf("decode record value %.80q: %w", value, err)
	}
	if v.After == nil || bytes.Equal(v.After, null) {
		return nil, nil
	}
	return v.After, nil
}

// DecodeImages returns the images of a value that AppendValue has written, byte for byte and without a copy; nil for null.
func DecodeImages(value []byte) (before, after []byte, err error) {
	s := rawjson.New(value)
	for name, more := s.First(); more; name, more = s.Next() {
		image := s.Skip()
		if bytes.Equal(image, null) {
			image = nil
		}
		switch string(name) {
		case "before":
			before = image
		case "after":
			return before, image, nil
		}
	}
	return nil, nil, fmt.Errorf("decode record value %.80q: it has no after", value)
}
