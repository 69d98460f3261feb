package serve

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Whatever an answer may lack, its head is below 3 KB, and none of its warnings is longer than 256 runes. Those that name what was asked for are there.
func TestWarningsFitThroughProxies(t *testing.T) {
	q := everything()
	q.namespace, q.name = "shop", "web"
	long := strings.Repeat("é", 2000)
	for _, text := range []string{"short", long, strings.Repeat("\x01", 300), strings.Repeat("\xff", 300), strings.Repeat(`"`, 300), strings.Repeat("𝕏", 200)} {
		for _, n := range []int{1, 2, 9, 10, 30, 101, 5000} {
			var missing []string
			for i := range n {
				missing = append(missing, fmt.Sprintf("pods other/p%d: it was deleted at an unknown resourceVersion: %s", i, text))
			}
			missing = append(missing, "pods shop/other: "+text, "pods@shop: "+text, "pods shop/web: "+text)
			var head []byte
			var kept []string
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				warn(w, q, missing)
				_ = write(w, http.StatusOK, []byte("{}"))
			}))
			c := must[net.Conn](t)(net.Dial("tcp", web.Listener.Addr().String()))
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			answer := must[[]byte](t)(io.ReadAll(c))
			c.Close()
			web.Close()
			head, _, _ = bytes.Cut(answer, []byte("\r\n\r\n"))
			for line := range strings.Lines(string(head)) {
				if warning, isWarning := strings.CutPrefix(line, "Warning: "); isWarning {
					kept = append(kept, warning)
				}
			}
			first := fmt.Sprint(kept[0], kept[min(1, len(kept)-1)], kept[min(2, len(kept)-1)])
			if len(head) >= 3<<10 || !strings.Contains(kept[0], "pods shop/web:") || len(kept) > 3 && (!strings.Contains(first, "shop/other") || !strings.Contains(first, "@shop")) {
				t.Errorf("%d reasons of %.20q: a head of %d bytes, %d warnings: %.300s", n+3, text, len(head), len(kept), first)
			}
			if dropped := n + 3 - len(kept); dropped > 0 && !strings.Contains(kept[len(kept)-1], fmt.Sprintf("%d more reasons", dropped+1)) {
				t.Errorf("%d reasons, of which %d are there: %s", n+3, len(kept), kept[len(kept)-1])
			}
		}
	}
}
