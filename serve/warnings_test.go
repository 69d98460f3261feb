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

// Whatever an answer may lack, its head is below 3 KB, and none of its warnings is longer than 256 runes. Those are there that name what was asked for.
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
			var sent []string
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				warn(w, q, missing)
				_ = write(w, media{}, http.StatusOK, []byte("{}"))
			}))
			c := must[net.Conn](t)(net.Dial("tcp", web.Listener.Addr().String()))
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			answer := must[[]byte](t)(io.ReadAll(c))
			c.Close()
			web.Close()
			head, _, _ = bytes.Cut(answer, []byte("\r\n\r\n"))
			for line := range strings.Lines(string(head)) {
				if warning, isWarning := strings.CutPrefix(line, "Warning: "); isWarning {
					sent = append(sent, warning)
				}
			}
			first := fmt.Sprint(sent[0], sent[min(1, len(sent)-1)], sent[min(2, len(sent)-1)])
			if len(head) >= 3<<10 || !strings.Contains(sent[0], "pods shop/web:") || len(sent) > 3 && (!strings.Contains(first, "shop/other") || !strings.Contains(first, "@shop")) {
				t.Errorf("%d reasons of %.20q: a head of %d bytes, %d warnings: %.300s", n+3, text, len(head), len(sent), first)
			}
			if dropped := n + 3 - len(sent); dropped > 0 && !strings.Contains(sent[len(sent)-1], fmt.Sprintf("%d more reasons", dropped+1)) {
				t.Errorf("%d reasons, of which %d are there: %s", n+3, len(sent), sent[len(sent)-1])
			}
		}
	}
}
