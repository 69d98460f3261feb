package admin

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"kubecdc/sinks/kafka/internal/settings"
)

// A broker that throttles a client does not read its connection. The client sees a timeout, which is not a TLS or login problem.
func TestAThrottledClientIsNotSentToTLS(t *testing.T) {
	muted, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer muted.Close()
	conn, err := net.Dial("tcp", muted.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now())
	_, noAnswer := conn.Read(make([]byte, 1))
	for _, err := range []error{noAnswer, context.DeadlineExceeded} {
		hint := Hint(&settings.Config{}, false, fmt.Errorf("produce: %w", err))
		if !strings.Contains(hint, "quota") || strings.Contains(hint, "TLS") {
			t.Errorf("after %q the hint is %q", err, hint)
		}
	}
}
