package sinks

// Observer is told what a sink meets but does not return from Write. Its methods are quick and safe for concurrent use.
type Observer interface {
	// SinkStuck names what the sink has been trying for a while in vain, each time that it is about to say so in the
	// log; nil when nothing is stuck any more.
	SinkStuck(err error)
	// DeadLetter says that a record of the resource (change.Resource.ID) stands in the dead letter, a stub in its
	// place. What could not be read is not counted here: the batch has it.
	DeadLetter(resource string)
}

// NoObserver hears nothing.
type NoObserver struct{}

func (NoObserver) SinkStuck(error)   {}
func (NoObserver) DeadLetter(string) {}
