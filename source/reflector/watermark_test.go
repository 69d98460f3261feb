package reflector_test

import (
	"slices"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// A stream in which nothing happens says again and again that it is complete, on one list and nothing else.
func TestAQuietStreamConfirmsItsPosition(t *testing.T) {
	t.Parallel()
	k := servers.Kube(t)
	l, o := newLedger(), &quietObserver{}
	options := testOptions()
	options.Watermark = 2 * time.Second
	startOn(t, k.Config, options, l, o)
	l.awaitSame(t, k.Config)
	l.mu.Lock()
	before, changes := l.sent, len(l.changes)
	l.mu.Unlock()
	began := time.Now()
	l.await(t, "three watermarks", func() bool { return l.sent-(len(l.changes)-changes) >= before+3 })
	t.Logf("three watermarks in %s, asked for every %s", time.Since(began).Round(100*time.Millisecond), options.Watermark)
	o.mu.Lock()
	defer o.mu.Unlock()
	lists := 0
	for _, s := range o.states {
		if s == change.StateListing {
			lists++
		}
	}
	if lists != 1 || slices.Contains(o.states, change.StateWaiting) {
		t.Errorf("the stream went through %v, want one list and no wait", o.states)
	}
}
