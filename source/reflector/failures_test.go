package reflector_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// failing is an API server that fails in changing ways: with another number each time.
type failing struct {
	asked  int
	answer func(n int) (code int, reason, message string)
}

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	f.asked++
	code, reason, message := f.answer(f.asked)
	body := strings.Replace(failure(code, reason), `"no"`, `"`+message+`"`, 1)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(body))}, nil
}

// A stream fails for 22 minutes, in two ways by turns and, in the middle, in a third. It is logged at once, at each new reason, and
// every five minutes. It is not logged at each attempt, of which there are some every minute.
func TestAFailureThatGoesOnIsLoggedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		server := &failing{answer: func(n int) (int, string, string) {
			switch since := time.Since(began); {
			case since > 7*time.Minute && since < 8*time.Minute:
				return 503, "ServiceUnavailable", "no endpoints"
			case n%2 == 0:
				return 500, "InternalError", "conversion webhook: dial tcp 10.0.0.7:" + strings.Repeat("9", n%4+1)
			}
			return 500, "InternalError", "conversion webhook: timeout"
		}}
		client, err := discovery.Connect(&rest.Config{Host: "http://script", Transport: server, QPS: -1})
		mustDo(t, err)
		var log bytes.Buffer
		l := newLedger()
		l.moved = make(chan struct{})
		s := reflector.New(change.NewStream(configMaps, "", "", ""), client.Client(), plain(), l, l, &quietObserver{}, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithTimeout(t.Context(), 22*time.Minute)
		defer cancel()
		_ = s.Run(ctx)
		if lines := strings.Count(log.String(), "will try again"); lines < 9 || lines > 11 || server.asked < 40 {
			t.Errorf("%d warnings of %d failures, want two ways four or five times, and a third once\n%s", lines, server.asked, log.String())
		}
	})
}

// causeObserver has the public form of a stream's last error.
type causeObserver struct {
	quietObserver
	cause  string
	status int32
}

func (o *causeObserver) StreamState(_ change.StreamID, _ change.StreamState, err error) {
	if err != nil {
		o.cause, o.status = fault.Public(err), reflector.StatusCode(err)
	}
}

// Streams that are refused for one cause have one public form, whatever their resources and namespaces are.
func TestRefusedStreamsHaveOneCause(t *testing.T) {
	for _, namespace := range []string{"", "shop", "office"} {
		synctest.Test(t, func(t *testing.T) {
			stream := change.NewStream(change.Resource{Group: "example.com", Version: "v1", Plural: "kind" + namespace, Namespaced: true}, namespace, "", "")
			message := fmt.Sprintf(`%s is forbidden: User \"a\" cannot list resource \"%s\" in API group \"example.com\"`, stream.Resource.ID(), stream.Resource.Plural)
			if namespace != "" {
				message += fmt.Sprintf(` in the namespace \"%s\"`, namespace)
			}
			server := &failing{answer: func(int) (int, string, string) { return 403, "Forbidden", message }}
			client, err := discovery.Connect(&rest.Config{Host: "http://script", Transport: server, QPS: -1})
			mustDo(t, err)
			o, l := &causeObserver{}, newLedger()
			l.moved = make(chan struct{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_ = reflector.New(stream, client.Client(), plain(), l, l, o, slog.New(slog.DiscardHandler)).Run(ctx)
			if o.cause != `forbidden: User "a" cannot list` || o.status != 403 {
				t.Errorf("%s: the cause is %q (%d)", stream.ID(), o.cause, o.status)
			}
		})
	}
}
