package change

import (
	"strings"

	"kubecdc/internal/rawjson"
)

// WithKind returns the stream with the version and kind of its resource, which one of its objects has. The stream's id lacks
// them.
func (s *Stream) WithKind(object []byte) *Stream {
	if copied, ok := strings.CutPrefix(string(s.id), snapshotPrefix); ok {
		return SnapshotOf(ParseStream(StreamID(copied)).WithKind(object))
	}
	r := s.Resource
	scan := rawjson.New(object)
	for name, more := scan.First(); more; name, more = scan.Next() {
		value := strings.Trim(string(scan.Skip()), `"`)
		switch string(name) {
		case "apiVersion":
			r.Version = value[strings.LastIndexByte(value, '/')+1:]
		case "kind":
			r.Kind = value
		}
	}
	return s.As(r)
}
