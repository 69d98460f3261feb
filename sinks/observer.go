package sinks

// Observer gets events that Write does not return. Its methods are quick, and safe for concurrent use.
type Observer interface {
	// SinkStuck gets the error of a request that has been retried in vain for a while, each time that it is logged. It gets nil
	// once no request is stuck.
	SinkStuck(err error)
	// DeadLetter is called when a record of the resource (change.Resource.ID) was written to the dead-letter topic and
	// replaced by a stub. Malformed events are not counted here: the batch has them.
	DeadLetter(resource string)
}

// NoObserver does nothing.
type NoObserver struct{}

func (NoObserver) SinkStuck(error)   {}
func (NoObserver) DeadLetter(string) {}
