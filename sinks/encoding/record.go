package encoding

import "kubecdc/sinks"

// Record is one record, for any carrier.
type Record struct {
	Key       []byte
	Value     [][]byte // parts to be joined
	Tombstone bool     // the value is null
	Headers   []sinks.Header
}

func (r *Record) addHeader(name, value string) {
	r.Headers = append(r.Headers, sinks.Header{Key: name, Value: value})
}

// addSomeHeader adds a header, unless its value is empty.
func (r *Record) addSomeHeader(name, value string) {
	if value != "" {
		r.addHeader(name, value)
	}
}
