package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// writer patches ConfigMaps of a real API server.
type writer struct {
	client *http.Client
	url    string // URL of the collection
	token  string
	writes int // so far
}

// written is one change: its moments, and the version that it made.
type written struct {
	planned, sent, answered time.Time
	version                 string
}

const (
	writtenObjects = 1000
	connections    = 64
	mergePatch     = "application/merge-patch+json"
	collection     = "/api/v1/namespaces/default/configmaps"
)

// newWriter makes the objects. Writes cost the server as little as can be, since it shares the machine with what is measured. They use
// HTTP/1.1 on persistent connections, and no managedFields (an empty entry drops them, see "Clearing managedFields" on
// https://kubernetes.io/docs/reference/using-api/server-side-apply/), which are a quarter of a patch's CPU.
func newWriter(ctx context.Context, config *rest.Config) (*writer, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	w := &writer{url: config.Host + collection, token: config.BearerToken, client: &http.Client{
		Transport: &http.Transport{TLSClientConfig: tlsConfig, MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}}}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range writtenObjects {
		group.Go(func() error {
			body := fmt.Sprintf(`{"metadata":{"name":"written-%d"},"data":{"writes":"0"}}`, i)
			if _, err := w.send(ctx, http.MethodPost, w.url, "application/json", body); err != nil {
				return err
			}
			_, err := w.send(ctx, http.MethodPatch, w.object(i), mergePatch, `{"metadata":{"managedFields":[{}]}}`)
			return err
		})
	}
	return w, group.Wait()
}

// write changes an object so many times a second, at fixed moments: a slow answer does not put off the next change.
// It returns when all are answered.
func (w *writer) write(ctx context.Context, rate int, during time.Duration) ([]written, error) {
	all := make([]written, int(during.Seconds()*float64(rate)))
	group, ctx := errgroup.WithContext(ctx)
	started := time.Now()
	for i := range all {
		one := &all[i]
		one.planned = started.Add(time.Duration(i) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(one.planned))
		w.writes++
		n := w.writes
		group.Go(func() error { return w.patch(ctx, n, one) })
	}
	return all, group.Wait()
}

func (w *writer) patch(ctx context.Context, n int, one *written) (err error) {
	body := fmt.Sprintf(`{"data":{"writes":"%d"}}`, n)
	one.sent = time.Now()
	answer, err := w.send(ctx, http.MethodPatch, w.object(n), mergePatch, body)
	if err != nil {
		return err
	}
	one.answered, one.version = time.Now(), answer.Metadata.ResourceVersion
	return nil
}

func (w *writer) object(n int) string { return fmt.Sprintf("%s/written-%d", w.url, n%writtenObjects) }

type object struct {
	Metadata struct{ ResourceVersion string }
}

func (w *writer) send(ctx context.Context, method, url, kind, body string) (o object, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return o, err
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Authorization", "Bearer "+w.token)
	response, err := w.client.Do(request)
	if err != nil {
		return o, err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return o, fmt.Errorf("%s %s: %s", method, url, response.Status)
	}
	return o, json.NewDecoder(response.Body).Decode(&o)
}
