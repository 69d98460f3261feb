package reflector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/redact"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
	"kubecdc/test/servers"
)

var secrets = change.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}

// canary must be in nothing that a stream of redacted objects emits, logs or reports.
const canary = "canary0123456789"

func redactor(mode redact.Mode) *redact.Redactor {
	return redact.New(redact.Rules{Cluster: "prod", Resource: "secrets", Mode: mode, Key: redact.Key("a key for tests only")})
}

// recorder has everything that a stream emits, logs and reports.
type recorder struct {
	quietObserver
	mu   sync.Mutex
	text strings.Builder
}

func (o *recorder) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *recorder) StreamState(stream change.StreamID, state change.StreamState, err error) {
	fmt.Fprintln(o, stream, state, err)
}

func (o *recorder) Relisted(stream change.StreamID, reason reflector.RelistReason) {
	fmt.Fprintln(o, stream, reason)
}

func (o *recorder) all(l *ledger) string {
	text := o.text.String()
	for _, c := range l.changes {
		text += string(c.Before) + string(c.After)
	}
	for _, r := range l.raws {
		text += r.Reason + string(r.Bytes)
	}
	return text
}

// If an event of a redacted stream can't be read, only its size and hash are emitted. No answer of the API server is quoted in an error
// or in the log.
func TestWhatCantBeReadOfARedactedStreamIsNotShown(t *testing.T) {
	bad := []string{
		`{"type":"ADDED","object":{"kind":"Secret","metadata":{"uid":"u"},"data":{"a":"` + canary + `"}}}`,
		`{"type":"ADDED","object":{"kind":"Secret","metadata":{"uid":"u","resourceVersion":"` + canary + `"}}}`,
		`{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u","resourceVersion":"101"},"data":{"a":"` + canary + `",}}}`,
		`{"type":"BOOKMARK","object":{"metadata":{},"data":{"a":"` + canary + `"}}}`,
	}
	secret := `{"kind":"Secret","metadata":{"name":"x","namespace":"default","uid":"u","resourceVersion":"103"},"data":{"a":"` + canary + `"}}`
	steps := []step{
		{want: "list limit=2", status: 500, body: secret},
		{want: "list limit=2", body: secret},
		{want: "list limit=2", body: `{"kind":"SecretList","metadata":{"resourceVersion":"` + canary + `"},"items":[]}`},
		{want: "list limit=2", body: `{"kind":"SecretList","metadata":{"resourceVersion":"100","continue":7,"x":"` + canary + `"},"items":[]}`},
		{want: "list limit=2", body: `{"kind":"SecretList","metadata":{"resourceVersion":"100"},"items":[{"data":{"a":"\u1Z` + canary + `"}}]}`},
		{want: "list limit=2", body: `{"kind":"SecretList","metadata":{"resourceVersion":"100"},"items":[{"data":` + canary + `}]}`},
		{want: "list limit=2", body: `{"kind":"SecretList","metadata":{"resourceVersion":"100"},"items":[{"metadata":{"resourceVersion":"` + canary + `"},"data":{"a":"` + canary + `"}}]}`},
		{want: "watch rv=100", body: strings.Join(bad, "\n") + "\n" + `{"type":"ERROR","object":` + strings.Replace(secret, `"103"`, `17`, 1) + "}\n"},
		{want: "list metadata limit=1", body: `{"kind":"SecretList","metadata":{"resourceVersion":"102"},"items":[]}`},
		{want: "watch rv=100", body: canary + "\n"},
		{want: "list metadata limit=1", body: `{"kind":"SecretList","metadata":{"resourceVersion":"102"},"items":[]}`},
		{want: "watch rv=100", body: `{"type":"ERROR","object":{"kind":"Token","message":"` + canary + `"}}` + "\n"},
		{want: "list metadata limit=1", body: `{"kind":"SecretList","metadata":{"resourceVersion":"102"},"items":[]}`},
		{want: "watch rv=100", hang: true, body: `{"type":"ADDED","object":` + secret + "}\n"},
	}
	synctest.Test(t, func(t *testing.T) {
		l, s, o := newLedger(), &script{steps: steps}, &recorder{}
		options := plain()
		options.Redactor = redactor(redact.Hash)
		client := must[*discovery.Server](t)(discovery.Connect(&rest.Config{Host: "http://script", Transport: s, QPS: -1}))
		stream := reflector.New(change.NewStream(secrets, "", "", ""), client.Client(), options, l, l, o,
			slog.New(slog.NewTextHandler(o, &slog.HandlerOptions{Level: slog.LevelDebug})))
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- stream.Run(ctx) }()
		for i := 0; !s.done() && i < 3600; i++ {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		stop()
		<-done
		s.check(t)
		if got := says(l); got != "c x@103" {
			t.Errorf("the log says %q", got)
		}
		if len(l.raws) != len(bad)+1 || !strings.Contains(string(l.raws[0].Bytes), `"bytes":`) || !json.Valid(l.raws[0].Bytes) {
			t.Errorf("dead letters: %+v", l.raws)
		}
		if text := o.all(l); strings.Contains(text, canary) {
			t.Errorf("the value is in the text:\n%s", text)
		}
	})
}

// Listed or streamed, watched, recovered after a gap: on each way an object passes the redactor.
func TestRedactedOnEveryWay(t *testing.T) {
	k := servers.Kube(t)
	for _, mode := range []redact.Mode{redact.Hash, redact.Metadata} {
		for name, streaming := range map[string]*reflector.StreamingLists{"pages": nil, "stream": reflector.NewStreamingLists(true)} {
			t.Run(string(mode)+", "+name, func(t *testing.T) { redactedOnEveryWay(t, k, mode, streaming) })
		}
	}
}

func redactedOnEveryWay(t *testing.T, k *servers.Kubernetes, mode redact.Mode, streaming *reflector.StreamingLists) {
	ns := servers.Namespace(t)
	api, g, l, o := kubernetes.NewForConfigOrDie(k.Config).CoreV1().Secrets(ns), newGateway(t, k.Config), newLedger(), &recorder{}
	put := func(name, value string) {
		t.Helper()
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"a": "b",
			corev1.LastAppliedConfigAnnotation: `{"stringData":{"s":"` + value + `"}}`}},
			Data: map[string][]byte{"d": []byte(value)}, StringData: map[string]string{"s": value}}
		_, err := api.Create(t.Context(), s, metav1.CreateOptions{})
		if err != nil {
			_, err = api.Update(t.Context(), s, metav1.UpdateOptions{})
		}
		mustDo(t, err)
	}
	put("listed", canary)
	options := testOptions()
	options.Redactor, options.MetadataOnly, options.Streaming = redactor(mode), mode == redact.Metadata, streaming
	startStream(t, g.config(), change.NewStream(secrets, ns, "", ""), options, l, o)
	l.awaitStarted(t)
	put("watched", canary)
	put("watched", canary+"1")
	l.awaitLog(t, "r listed", "c watched", "u watched")
	g.hold()
	put("listed", canary+"2")
	put("listed", canary+"3")
	put("brief", canary)
	mustDo(t, api.Delete(t.Context(), "brief", metav1.DeleteOptions{}))
	mustDo(t, api.Delete(t.Context(), "watched", metav1.DeleteOptions{}))
	g.release(true)
	l.awaitLog(t, "r listed", "c watched", "u watched", "u listed", "u listed", "c brief", "d brief", "d watched")
	text := o.all(l)
	for _, hidden := range []string{canary, "Y2FuYXJ5MDEyMzQ1Njc4", "\"" + corev1.LastAppliedConfigAnnotation} {
		if strings.Contains(text, hidden) {
			t.Errorf("%s is reported", hidden)
		}
	}
	wantHashes(t, l, mode)
}

// wantHashes demands that the hashes of hash mode change when the values do.
func wantHashes(t *testing.T, l *ledger, mode redact.Mode) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range l.changes {
		if c.After == nil {
			continue
		}
		var s corev1.Secret
		var raw struct{ Data map[string]string }
		mustDo(t, json.Unmarshal(c.After, &raw))
		_ = json.Unmarshal(c.After, &s) // hashes are no base64
		if mode == redact.Metadata {
			if raw.Data != nil || s.Annotations["a"] != "b" {
				t.Errorf("%s carries %s", c.Name, c.After)
			}
			continue
		}
		if h := raw.Data["d"]; !strings.HasPrefix(h, "hmac-sha256:") || seen[h] || h == raw.Data["s"] {
			t.Errorf("%s carries %s", c.Name, c.After)
		}
		seen[raw.Data["d"]] = true
	}
}
