package live

import (
	"errors"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/source/reflector"
)

// Problem is something that does not work now.
type Problem struct {
	Text  string    `json:"problem"` // without passwords and names of objects
	Since time.Time `json:"since,omitzero"`
	// the text without the parts that differ between streams with one cause, or empty if it has no such parts
	Cause    string   `json:"-"`
	Code     string   `json:"-"` // Differs, DiskFull, the stream's state, or one of package status: the advice goes by it
	Status   int32    `json:"-"` // the HTTP status with which the API server has answered, or 0
	Recovery Recovery `json:"-"` // its progress, if it is one
}

// Past is an ended problem.
type Past struct {
	Component string
	Problem
	Until  time.Time
	Stream change.StreamID // empty: it was not a stream's
}

// Server is a server that is up or down, and since when.
type Server struct {
	Up    bool
	Since time.Time
}

// Selection is the component for selected resources that do not exist. Existing ones are exported meanwhile.
const Selection = "selection"

// DiskFull is the code of a problem that ends by itself once the disk has room.
const DiskFull = "disk full"

// start is the component for what the start waits for.
const start = "start"

// Waits reports what the start waits for, and on which dependency. It reports nil after each step.
func (e *Exporter) Waits(server string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waitsOn = server; err == nil {
		delete(e.problems, start)
		return
	}
	e.problems[start] = e.problem(e.problems[start], err)
}

// Fails reports that a component does not work now, or with nil that it works again.
func (e *Exporter) Fails(component string, err error) { e.setProblem(e.problems, component, err) }

// Stalled records the oldest unanswered call to a server as a problem. A nil error ends the problem.
func (e *Exporter) Stalled(server string, err error) {
	if e.setProblem(e.stalls, server, err); err != nil {
		e.Count.Error(server)
	}
}

// SinkStuck reports the error that the sink retries, or nil after a successful retry.
func (e *Exporter) SinkStuck(err error) {
	if e.Fails(dependency.Sink, err); err != nil {
		e.Count.Error(dependency.Sink)
	}
}

func (e *Exporter) setProblem(all map[string]*Problem, component string, err error) {
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

// problem returns the problem for an error. While only its text changes, it has the time of the one before.
func (e *Exporter) problem(before *Problem, err error) *Problem {
	hide := func(text string) string { return plain.HideNames(plain.Redact(text)) }
	p := &Problem{Text: hide(err.Error()), Cause: hide(fault.Public(err)), Status: reflector.StatusCode(err), Since: e.Now()}
	if database, ok := errors.AsType[*fault.Database](err); ok && database.Full {
		p.Code = DiskFull
	}
	if before != nil {
		p.Since = before.Since
	}
	return p
}

// mostPast is how many ended problems are remembered. One cause may have affected all streams.
const mostPast = 1000

// over remembers an ended problem. It ignores nil.
func (e *Exporter) over(component string, stream change.StreamID, p *Problem) {
	if p == nil {
		return
	}
	if len(e.past) == mostPast {
		e.past = slices.Delete(e.past, 0, 1)
	}
	e.past = append(e.past, Past{component, *p, e.Now(), stream})
}

// used records that a server works, unless it has a problem.
func (e *Exporter) used(server string) {
	if e.servers[server] == nil {
		e.servers[server] = &Server{!e.fails(server), e.Now()}
	}
}

// judge records which servers go down or come up again.
func (e *Exporter) judge() {
	for _, name := range dependency.All {
		s, up := e.servers[name], !e.fails(name)
		if s == nil && !up || s != nil && s.Up != up {
			e.servers[name] = &Server{up, e.Now()}
		}
	}
}

// fails reports whether a dependency fails, or does not answer.
func (e *Exporter) fails(server string) bool {
	for _, s := range e.slots {
		if s.Problem != nil && s.Server == server {
			return true
		}
	}
	return e.problems[server] != nil || e.stalls[server] != nil
}
