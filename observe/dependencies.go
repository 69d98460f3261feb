package observe

// Waits reports what the start waits for, and on which dependency; nil when a step of it is done.
func (h *Health) Waits(dependency string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waitsOn = dependency; err == nil {
		delete(h.problems, "start")
		return
	}
	h.problems["start"] = h.update(h.problems["start"], err)
}

// isDown reports that a dependency fails, or that the start waits for it.
func (h *Health) isDown(dependency string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fails(dependency) || h.waitsOn == dependency
}

// fails reports that a dependency fails, or does not answer.
func (h *Health) fails(dependency string) bool {
	for _, s := range h.slots {
		if s.err != nil && s.dependency == dependency {
			return true
		}
	}
	return h.problems[dependency] != nil || h.stalls[dependency] != nil
}
