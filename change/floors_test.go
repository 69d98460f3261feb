package change_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"kubecdc/change"
)

// Namespaces are split off and merged back at random, and positions move. A stream must know of every namespace how far
// the log has it, and must not be ahead of any.
func TestFloorsKnowHowFarEachNamespaceIs(t *testing.T) {
	for seed := range uint64(3000) {
		m := &merging{random: rand.New(rand.NewPCG(seed, 4)), far: map[string]int{"a": 9, "b": 9, "c": 9, "d": 9}, apart: map[string]change.Position{}}
		m.rest = at(9)
		for step := range 12 {
			m.step()
			for namespace := range m.far {
				if why := m.check(namespace); why != "" {
					t.Fatalf("seed %d, step %d: %s: %s\nlog: %v\nrest: %+v\napart: %+v", seed, step, namespace, why, m.far, m.rest, m.apart)
				}
			}
		}
	}
}

// merging is a stream of four namespaces, and what the log has of each: 0 is nothing.
type merging struct {
	random *rand.Rand
	far    map[string]int
	rest   change.Position
	apart  map[string]change.Position
}

func at(version int) change.Position {
	if version == 0 {
		return change.Position{}
	}
	return change.Position{ResourceVersion: fmt.Sprint(version)}
}

func (m *merging) step() {
	namespace := []string{"a", "b", "c", "d"}[m.random.IntN(4)]
	p, apart := m.apart[namespace]
	switch m.random.IntN(4) {
	case 0: // a stream alone moves on
		if apart {
			m.far[namespace] += m.random.IntN(8)
			m.apart[namespace] = at(m.far[namespace])
		}
	case 1: // the rest does; nothing of it is passed over
		m.move()
	case 2:
		if apart {
			m.rest = m.rest.With(namespace, p)
			delete(m.apart, namespace)
		}
	case 3:
		if apart && m.random.IntN(3) == 0 { // its log is lost
			m.far[namespace], m.apart[namespace] = 0, at(0)
		} else if !apart {
			m.apart[namespace] = at(0)
			if version := m.rest.In(namespace); version != "" {
				m.apart[namespace] = change.Position{ResourceVersion: version}
			}
			m.rest = m.rest.Without(namespace)
		}
	}
}

func (m *merging) move() {
	to := 0
	fmt.Sscan(m.rest.ResourceVersion, &to)
	if m.rest.ResourceVersion == "" || m.rest.Floors.Unlisted() {
		return // it has to be listed first
	}
	to += m.random.IntN(8)
	m.rest.ResourceVersion = fmt.Sprint(to)
	m.rest.Floors = m.rest.Floors.Beyond(m.rest.ResourceVersion)
	for namespace := range m.far {
		if _, apart := m.apart[namespace]; !apart {
			m.far[namespace] = max(m.far[namespace], to)
		}
	}
}

func (m *merging) check(namespace string) string {
	p, apart := m.apart[namespace]
	if !apart {
		p = m.rest
	}
	known := 0
	if m.rest.ResourceVersion == "" && !apart {
		return "" // all is listed and compared
	}
	fmt.Sscan(p.In(namespace), &known)
	if known != m.far[namespace] {
		return fmt.Sprintf("the log has it up to %d, the stream says %d", m.far[namespace], known)
	}
	position := 0
	fmt.Sscan(p.ResourceVersion, &position)
	if position > known && known != 0 {
		return fmt.Sprintf("the stream is at %d, the log at %d", position, known)
	}
	if known > position && !p.Floors.Has(namespace, fmt.Sprint(known)) || p.Floors.Has(namespace, fmt.Sprint(known+1)) {
		return "it does not tell what is new of it"
	}
	return ""
}
