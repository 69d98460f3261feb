package change

import (
	"bytes"
	"fmt"

	"kubecdc/internal/rawjson"
)

// DecodeKey parses a key that AppendKey has written.
func DecodeKey(key []byte) (cluster, namespace, name string, err error) {
	s := rawjson.New(key)
	for member, more := s.First(); more; member, more = s.Next() {
		text, ok := rawjson.Text(s.Skip())
		if !ok {
			s.Fail()
		}
		switch string(member) {
		case "cluster":
			cluster = text
		case "namespace":
			namespace = text
		case "name":
			name = text
		}
	}
	if !s.OK() {
		return "", "", "", fmt.Errorf("decode record key %.80q: not a key of kubecdc's", key)
	}
	return cluster, namespace, name, nil
}

// Decoded is what a value that AppendValue has written holds, byte for byte and without a copy. An image is nil for null.
type Decoded struct {
	Before, After []byte
	Source        []byte // nil: none
}

// Decode parses a value that AppendValue has written.
func Decode(value []byte) (d Decoded, err error) {
	s, found := rawjson.New(value), false
	for name, more := s.First(); more; name, more = s.Next() {
		member := s.Skip()
		if bytes.Equal(member, null) {
			member = nil
		}
		switch string(name) {
		case "before":
			d.Before = member
		case "after":
			d.After, found = member, true
		case "source":
			d.Source = member
		}
	}
	if !s.OK() || !found {
		return d, fmt.Errorf("decode record value %.80q: it has no after", value)
	}
	return d, nil
}
