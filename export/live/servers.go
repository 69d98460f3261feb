package live

import (
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/internal/dependency"
	"kubecdc/internal/plain"
)

// Problem is something that can't work for now.
type Problem struct {
	Text  string // without passwords and names of objects
	Since time.Time
}

// Past is a problem that went away.
type Past struct {
	Component    string
	Text         string
	Since, Until time.Time
	Stream       change.StreamID // that had it; empty: it was not a stream's
}

// Server says since when a server is up or down.
type Server struct {
	Up    bool
	Since time.Time
}

// Selection is the component of what is selected and not there. What is there is exported meanwhile.
const Selection = "selection"

// start is the component of what the start waits for.
const start = "start"

// Waits reports what the start waits for, and on which dependency; nil when a step of it is done.
func (e *Exporter) Waits(on string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waitsOn = on; err == nil {
		delete(e.problems, start)
		return
	}
	e.problems[start] = e.problem(e.problems[start], err)
}

// Fails reports that a component can't work for now; nil: it works again.
func (e *Exporter) Fails(component string, err error) { e.note(e.problems, component, err) }

// Stalled reports the oldest call to a dependency that is unanswered; nil when there is none.
func (e *Exporter) Stalled(server string, err error) {
	if e.note(e.stalls, server, err); err != nil {
		e.Count.Error(server)
	}
}

// SinkStuck reports the error that the sink retries; nil when a retry succeeded.
func (e *Exporter) SinkStuck(err error) {
	if e.Fails(dependency.Sink, err); err != nil {
		e.Count.Error(dependency.Sink)
	}
}

func (e *Exporter) note(all map[string]*Problem, component string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.judge()
	if err == nil {
		e.over(component, "", all[component])
		delete(all, component)
		return
	}
	all[component] = e.problem(all[component], err)
}

// problem returns the problem that an error is. It keeps the time of the one before, while its text changes.
func (e *Exporter) problem(before *Problem, err error) *Problem {
	p := &Problem{plain.HideNames(plain.Redact(err.Error())), e.Now()}
	if before != nil {
		p.Since = before.Since
	}
	return p
}

// mostPast is how many problems that went away are remembered: all streams may have had one, of one cause.
const mostPast = 1000

// over remembers a problem that went away; nil: there was none.
func (e *Exporter) over(component string, stream change.StreamID, p *Problem) {
	if p == nil {
		return
	}
	if len(e.past) == mostPast {
		e.past = slices.Delete(e.past, 0, 1)
	}
	e.past = append(e.past, Past{component, p.Text, p.Since.UTC(), e.Now().UTC(), stream})
}

// used notes that a server works, unless it has a problem.
func (e *Exporter) used(server string) {
	if e.servers[server] == nil {
		e.servers[server] = &Server{!e.fails(server), e.Now()}
	}
}

// judge notes which servers go down or come up again.
func (e *Exporter) judge() {
	for _, name := range dependency.All {
		s, up := e.servers[name], !e.fails(name)
		if s == nil && !up || s != nil && s.Up != up {
			e.servers[name] = &Server{up, e.Now()}
		}
	}
}

// fails reports that a dependency fails, or does not answer.
func (e *Exporter) fails(server string) bool {
	for _, s := range e.slots {
		if s.Problem != nil && s.Server == server {
			return true
		}
	}
	return e.problems[server] != nil || e.stalls[server] != nil
}
