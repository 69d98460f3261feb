package web

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
)

// ErrCrowded says that the sender of a request, or the server, has too many of them.
var ErrCrowded = errors.New("there are too many requests at once")

// places bounds how many connections a server has, or requests. A connection above the bound ends an idle one, or else one whose
// sender is not known. It ends no other connection. A known sender can't get more than its share.
type places struct {
	most   int
	shares *Shares // senders that are known have so many
	mu     sync.Mutex
	open   map[*place]bool
	events uint64
}

// place is a connection or a request.
type place struct {
	all      *places
	end      func()
	address  string // the client's, without a port
	sender   string // or empty until May
	requests int    // 1: one has begun
	hijacked bool   // the HTTP server does not know it any more
	since    uint64 // number of the event that set this state
}

func newPlaces(most int) *places {
	return &places{most: most, shares: NewShares(int64(most)), open: map[*place]bool{}}
}

// enter takes a place for a client's address, and ends another one if there are too many.
func (all *places) enter(address string, end func()) *place {
	p := &place{all: all, end: end, address: hostOf(address)}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.open[p] = true
	p.set(1)
	if len(all.open) > all.most {
		if last := all.lastOf(p); last != nil { // known senders have fewer places than there are (Shares)
			delete(all.open, last)
			last.end()
		}
	}
	return p
}

// lastOf returns the place to end first. It prefers a place without a request, then the address with most places, then the oldest
// place.
func (all *places) lastOf(except *place) (last *place) {
	unknown := map[string]int{}
	for p := range all.open {
		if p.sender == "" {
			unknown[p.address]++
		}
	}
	for p := range all.open {
		if p != except && p.sender == "" && (last == nil ||
			cmp.Or(p.requests-last.requests, unknown[last.address]-unknown[p.address], cmp.Compare(p.since, last.since)) < 0) {
			last = p
		}
	}
	return last
}

// set sets the number of requests, and forgets their sender.
func (p *place) set(requests int) {
	p.all.events++
	p.requests, p.since = requests, p.all.events
	if p.sender != "" {
		p.all.shares.Release(p.sender, 1)
		p.sender = ""
	}
}

func (p *place) changed(requests int) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if p.all.open[p] {
		p.set(requests)
	}
}

func (p *place) leave() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.set(0)
	delete(p.all.open, p)
}

// count reports whether a place is within its sender's share.
func (p *place) count(sender string) bool {
	if p == nil { // another server's connection
		return true
	}
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if p.sender == "" && p.all.open[p] && p.all.shares.Try(sender, 1) {
		p.sender = sender
	}
	return p.sender != ""
}

// endHijacked closes the connections that the HTTP server does not.
func (all *places) endHijacked() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for p := range all.open {
		if p.hijacked {
			p.end()
		}
	}
}

func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(address)
	return host
}

type placesKey struct{}

// held are the places of a request.
type held struct{ connection, request *place }

// count counts a request's places for its sender.
func count(r *http.Request, a Access) error {
	h, isBounded := r.Context().Value(placesKey{}).(held)
	if !isBounded {
		return nil
	}
	sender := hostOf(r.RemoteAddr)
	if known, knows := a.(interface{ nameOf(token string) string }); knows {
		sender = cmp.Or(known.nameOf(bearer(r)), sender)
	}
	if h.request.count(sender) && h.connection.count(sender) {
		return nil
	}
	return ErrCrowded
}

type senderKey struct{}

// As returns a context of a sender's requests.
func As(ctx context.Context, sender string) context.Context {
	return context.WithValue(ctx, senderKey{}, sender)
}

// SenderOf returns the sender of a request that May has allowed: the owner of the token, or else the client's address. It returns
// "" if the server does not bound requests.
func SenderOf(ctx context.Context) string {
	if sender, isSet := ctx.Value(senderKey{}).(string); isSet {
		return sender
	}
	h, isBounded := ctx.Value(placesKey{}).(held)
	if !isBounded {
		return ""
	}
	h.request.all.mu.Lock()
	defer h.request.all.mu.Unlock()
	return h.request.sender
}
