package recovery

import (
	"context"
	"slices"
	"time"
)

type stage int

const (
	idle      stage = iota
	walking         // it lists, or walks its changed objects
	deferring       // past lists show most of its changes: it walks when the others have walked, or later
	dating          // it lets others explain revisions, and dates deletions
	sizing          // it reads sizes, and what they lead to
	late            // it walks when the others have ended
)

// stuck is the time without an answer after which a recovery is not waited for.
const stuck = time.Minute

// mostQuiet is how many quiet recoveries read sizes at once at most.
const mostQuiet = 32

// awaitTurn waits until no other recovery has to go first with the stage.
func (p *Participant) awaitTurn(ctx context.Context, s stage) error {
	for {
		var turn chan struct{}
		p.locked(func(*Coordinator) {
			if p.stage != s {
				p.enter(s)
			}
			p.active = time.Now() // a recovery that waits is not stuck
			if p.mustWait() {
				turn = make(chan struct{})
			}
			p.turn = turn
		})
		if turn == nil {
			return nil
		}
		select {
		case <-turn:
		case <-time.After(stuck / 2):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// enter enters a stage. Its callers hold the lock.
func (p *Participant) enter(s stage) {
	p.move(func() {
		if r := p.resource; p.stream.Namespace != "" {
			r.running += running(s) - running(p.stage)
		}
		p.stage, p.active = s, time.Now()
	})
}

func running(s stage) int { return int(min(s, 1)) }

// move makes a change that may affect the participant's place in its group. It then wakes the recoveries that need not wait any
// more.
func (p *Participant) move(change func()) {
	g := p.resource.group
	g.leave(p)
	change()
	g.enter(p)
	g.wake()
}

// mustWait reports whether another recovery, whose writes the stream can use, has to go first.
func (p *Participant) mustWait() bool {
	g, quiet := p.resource.group, 0
	for _, q := range g.line {
		if q == p {
			return false
		}
		if time.Since(q.active) >= stuck || !p.learnsFrom(q) {
			continue
		}
		if quiet++; !q.isQuiet() || p.stage != sizing || quiet >= g.quietAtOnce() {
			return true
		}
	}
	return false
}

// isQuiet reports whether the recovery reads sizes, and probably finds nothing.
func (p *Participant) isQuiet() bool { return p.stage == sizing && p.changed == 0 && p.gain == 0 }

// quietAtOnce is how many quiet recoveries read sizes at once. The first one reads alone. If it has transient objects, the others
// need not read their revisions. Each recovery that ends makes room for one more. So a thousand end soon, also if the API server
// is far away.
func (g *group) quietAtOnce() int { return min(1+g.quietEnded, mostQuiet) }

// goesBefore orders the recoveries by stage. Within a stage the recovery whose sizes explain most by their cost comes first. Then
// comes the recovery that changed most, by its list or before.
func (p *Participant) goesBefore(q *Participant) bool {
	switch {
	case p.stage != q.stage:
		return p.stage < q.stage
	case p.gain != q.gain:
		return p.gain > q.gain
	case p.changed != q.changed:
		return p.changed > q.changed
	case p.before != q.before:
		return p.before > q.before
	}
	return p.stream.ID() < q.stream.ID()
}

// enter puts a recovery that runs into the line.
func (g *group) enter(p *Participant) {
	if p.stage != idle {
		g.line = slices.Insert(g.line, g.place(p), p)
	}
}

func (g *group) leave(p *Participant) {
	if p.stage != idle {
		i := g.place(p)
		g.line = slices.Delete(g.line, i, i+1)
	}
}

// place returns where in the line the recovery is, or belongs.
func (g *group) place(p *Participant) int {
	i, _ := slices.BinarySearchFunc(g.line, p, func(q, p *Participant) int {
		switch {
		case q == p:
			return 0
		case q.goesBefore(p):
			return -1
		}
		return 1
	})
	return i
}

// wake wakes the first recovery of the line, and those behind it that do not wait for it. Nobody waits for one that is stuck.
// Recoveries of resources whose objects expire do not wait for each other.
func (g *group) wake() {
	now, leased, quiet := time.Now(), false, 0
	for _, p := range g.line {
		if p.turn != nil && (!leased || p.resource.leased) && (quiet == 0 || p.stage == sizing) {
			close(p.turn)
			p.turn = nil
		}
		active := now.Sub(p.active) < stuck
		leased = leased || active && p.resource.leased
		if active && p.isQuiet() {
			quiet++
		}
		if active && !p.resource.leased && !p.isQuiet() || quiet >= g.quietAtOnce() {
			return
		}
	}
}
