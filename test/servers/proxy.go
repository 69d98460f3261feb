package servers

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Proxy passes TCP from a loopback port to a target, and fails on demand.
//
// Every fault holds until Restore, for connections that are open and for new ones. Only CutAfter is over once it has struck.
type Proxy struct {
	Address string // 127.0.0.1:port

	mu       sync.Mutex
	changed  *sync.Cond // frozen, closed or a link's end changed
	target   string
	listener net.Listener
	links    map[*link]bool
	frozen   bool
	closed   bool
	rate     int // bytes a second each way and connection; 0: unlimited
	cutAfter int // bytes from the target until the cut; negative: none
	accepted int
}

// link is one client's connection and its counterpart to the target.
type link struct {
	client, server net.Conn // server is nil until dialled
	ended          bool
}

// NewProxy listens on a free loopback port for connections to target. It passes everything, at first.
func NewProxy(target string) (*Proxy, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &Proxy{Address: loopback(port), target: target, links: map[*link]bool{}, cutAfter: -1}
	p.changed = sync.NewCond(&p.mu)
	return p, p.listen()
}

func (p *Proxy) listen() error {
	l, err := net.Listen("tcp", p.Address)
	if err != nil {
		return fmt.Errorf("start proxy to %s: %w", p.target, err)
	}
	p.listener = l
	go p.accept(l)
	return nil
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		if ln := p.admit(client, l); ln != nil {
			go p.serve(ln)
		}
	}
}

// admit books a new connection, unless its listener was closed meanwhile.
func (p *Proxy) admit(client net.Conn, l net.Listener) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != l {
		reset(client)
		return nil
	}
	p.accepted++
	ln := &link{client: client}
	p.links[ln] = true
	return ln
}

func (p *Proxy) serve(ln *link) {
	defer p.end(ln, false)
	target, ok := p.pass(ln)
	if !ok {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil || !p.join(ln, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(ln, server, ln.client, p.all) })
	both.Go(func() { p.copy(ln, ln.client, server, p.untilCut) })
	both.Wait()
}

func (p *Proxy) join(ln *link, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ln.ended {
		server.Close()
		return false
	}
	ln.server = server
	return true
}

// pass waits while the proxy is frozen, and reports whether the link is still open after that.
func (p *Proxy) pass(ln *link) (target string, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.frozen && !ln.ended {
		p.changed.Wait()
	}
	return p.target, !ln.ended
}

// copy moves bytes until either side ends. allowed says how many of the next n may pass, and whether that is the end.
func (p *Proxy) copy(ln *link, to, from net.Conn, allowed func(n int) (int, bool)) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(p.chunk(buf))
		if _, open := p.pass(ln); !open {
			return
		}
		n, cut := allowed(n)
		_, werr := to.Write(buf[:n])
		switch {
		case errors.Is(err, io.EOF) && !cut:
			closeWrite(to)
			return
		case err != nil || werr != nil || cut:
			p.end(ln, !cut)
			return
		}
		p.throttle(n)
	}
}

func (p *Proxy) all(n int) (int, bool) { return n, false }

// untilCut counts down to the cut, which strikes once.
func (p *Proxy) untilCut(n int) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutAfter < 0 || n == 0 {
		return n, false
	}
	if n < p.cutAfter {
		p.cutAfter -= n
		return n, false
	}
	n, p.cutAfter = p.cutAfter, -1
	return n, true
}

// chunk is the part of buf to fill at once: a tenth of a second's worth.
func (p *Proxy) chunk(buf []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return buf
	}
	return buf[:min(len(buf), max(1, p.rate/10))]
}

func (p *Proxy) throttle(n int) {
	p.mu.Lock()
	rate := p.rate
	p.mu.Unlock()
	if rate > 0 {
		time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
	}
}

// end closes both sides of a link: with a reset, as when a machine is gone, or in the regular way.
func (p *Proxy) end(ln *link, hard bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked(ln, hard)
}

func (p *Proxy) endLocked(ln *link, hard bool) {
	if ln.ended {
		return
	}
	ln.ended = true
	delete(p.links, ln)
	for _, c := range []net.Conn{ln.client, ln.server} {
		switch {
		case c == nil:
		case hard:
			reset(c)
		default:
			c.Close()
		}
	}
	p.changed.Broadcast()
}

// Cut resets every connection and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.dropLocked()
}

// Drop resets every connection, and takes new ones.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropLocked()
}

func (p *Proxy) dropLocked() {
	for ln := range p.links {
		p.endLocked(ln, true)
	}
}

// Freeze takes connections but passes nothing, either way, and says nothing: as a network does that loses every packet.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
}

// EachClient does something to the open connections of clients, until it fails.
func (p *Proxy) EachClient(do func(net.Conn) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ln := range p.links {
		if err := do(ln.client); err != nil {
			return err
		}
	}
	return nil
}

// Slow limits each connection to so many bytes a second, each way.
func (p *Proxy) Slow(bytesPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = max(1, bytesPerSecond)
}

// CutAfter ends the connection that carries the n-th byte from the target, counted over all connections from now. So n can be in the
// middle of a body. It closes regularly, so that the bytes before arrive. It does that once.
func (p *Proxy) CutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAfter = max(0, n)
}

// Retarget leads new connections elsewhere. Drop ends open ones.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Restore ends every fault. What was held back by Freeze passes now.
func (p *Proxy) Restore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("restore proxy: it is closed")
	}
	p.frozen, p.rate, p.cutAfter = false, 0, -1
	p.changed.Broadcast()
	if p.listener != nil {
		return nil
	}
	return p.listen()
}

// Accepted is how many connections came so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Close is Cut, for good.
func (p *Proxy) Close() {
	p.Cut()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

func closeWrite(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}
