package export

import (
	"sync"

	"kubecdc/change"
	"kubecdc/source/discovery"
)

// broadcaster sends each new selection to all sessions. A session that has not received the previous selection yet gets only
// the newest.
type broadcaster struct {
	mu          sync.Mutex
	newest      *discovery.Selection
	subscribers map[chan discovery.Selection]bool
}

func newBroadcaster() *broadcaster {
	return &broadcaster{subscribers: map[chan discovery.Selection]bool{}}
}

func (b *broadcaster) publish(s discovery.Selection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = &s
	for ch := range b.subscribers {
		replace(ch, s)
	}
}

// latest returns the resources of the newest selection.
func (b *broadcaster) latest() []change.Resource {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest == nil {
		return nil
	}
	return b.newest.Resources
}

// subscribe returns a channel that has the newest selection, if there is one, and a function that ends the subscription.
func (b *broadcaster) subscribe() (<-chan discovery.Selection, func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch := make(chan discovery.Selection, 1)
	b.subscribers[ch] = true
	if b.newest != nil {
		replace(ch, *b.newest)
	}
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subscribers, ch)
	}
}

// replace puts the selection in the place of the one in the channel. The caller holds the lock, and so is the only sender.
func replace(ch chan discovery.Selection, s discovery.Selection) {
	select {
	case <-ch:
	default:
	}
	ch <- s
}
