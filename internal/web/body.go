package web

import (
	"net/http"
	"time"
)

// Bodiless refuses requests with a body, and does not wait for the body.
func Bodiless(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		Refuse(w, "a request has no body here", http.StatusRequestEntityTooLarge)
	})
}

// Refuse answers a request whose body is not read.
func Refuse(w http.ResponseWriter, why string, code int) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // or the server would read on
	w.Header().Set("Connection", "close")
	http.Error(w, why, code)
}
