package export

import (
	"sync"

	"kubecdc/source/discovery"
)

// hub hands the newest selection to every slot; an older one that a slot did not look at yet is replaced.
type hub struct {
	mu      sync.Mutex
	current *discovery.Selection
	subs    map[chan discovery.Selection]bool
}

func newHub() *hub { return &hub{subs: map[chan discovery.Selection]bool{}} }

func (h *hub) publish(s discovery.Selection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = &s
	for ch := range h.subs {
		offer(ch, s)
	}
}

func (h *hub) subscribe() (<-chan discovery.Selection, func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := make(chan discovery.Selection, 1)
	h.subs[ch] = true
	if h.current != nil {
		offer(ch, *h.current)
	}
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, ch)
	}
}

// offer replaces what waits in the channel; the hub's lock makes it the only sender.
func offer(ch chan discovery.Selection, s discovery.Selection) {
	select {
	case <-ch:
	default:
	}
	ch <- s
}
