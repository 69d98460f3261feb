package web

import (
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"
)

// A long answer that was silent for longer than a part of it may take is read to its end. A client that does not read its parts is cut.
func TestALongAnswerThatIsSilentEndsWell(t *testing.T) {
	t.Parallel()
	const within = 50 * time.Millisecond
	s, err := Listen(Options{Listen: "127.0.0.1:0", Within: within, MostConnections: 10, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	cut := make(chan error, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/silent", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-time.After(3 * within)
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for part := make([]byte, 1<<20); ; {
			if _, err := w.Write(part); err != nil {
				cut <- err
				return
			}
		}
	})
	go s.Serve(s.Long(mux))
	silent, err := http.Get(s.URL() + "/silent")
	must(t, err)
	defer silent.Body.Close()
	if text, err := io.ReadAll(silent.Body); err != nil || string(text) != "first" {
		t.Errorf("the answer is %q, %v", text, err)
	}
	endless, err := http.Get(s.URL() + "/endless")
	must(t, err)
	defer endless.Body.Close()
	if err := <-cut; err == nil {
		t.Error("a client that does not read is not cut")
	}
}

// A server without a certificate says so also while it serves: package http makes a TLS configuration of its own then.
func TestTheURLWithoutACertificate(t *testing.T) {
	t.Parallel()
	s, err := Listen(Options{Listen: "127.0.0.1:0", MostConnections: 10, MostRequests: 10, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	go s.Serve(http.NotFoundHandler())
	url := "http://" + s.Addr()
	answer, err := http.Get(url)
	must(t, err)
	answer.Body.Close()
	if s.URL() != url {
		t.Errorf("its URL is %s, want %s", s.URL(), url)
	}
}
