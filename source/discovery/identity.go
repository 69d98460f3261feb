package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// Identify asks the API server which cluster it is: the uid of namespace kube-system, and the fingerprint of the CA that
// the client trusts. Only where the server itself says that the namespace may not be read (403), or that there is none
// (404), is the uid left empty. While it has no time to answer (429, 5xx) it is asked again until ctx ends.
func (d *Server) Identify(ctx context.Context, log *slog.Logger) (change.ClusterIdentity, error) {
	var id change.ClusterIdentity
	var err error
	if id.CA, err = fingerprint(d.config); err != nil {
		return id, err
	}
	if id.UID, id.Hidden, err = d.clusterUID(ctx, log); err != nil {
		return id, err
	}
	if id.ID() == "" {
		return id, fmt.Errorf("tell which cluster this is: namespace kube-system can't be read (%s) and the kubeconfig has no CA: "+
			"grant get on namespace kube-system, or set certificate-authority", id.Hidden)
	}
	return id, nil
}

const kubeSystem = "/api/v1/namespaces/kube-system"

// clusterUID returns the uid, or why it can't be had, in the server's words.
func (d *Server) clusterUID(ctx context.Context, log *slog.Logger) (uid, hidden string, err error) {
	wait := identityWait{server: d.Host(), log: log, retry: backoff.NewExponentialBackOff()}
	wait.retry.MaxInterval = 10 * time.Second
	for {
		raw, err := d.client.Read(ctx, kubeSystem)
		var refusal apierrors.APIStatus
		switch {
		case err == nil:
			uid, err := namespaceUID(raw)
			return uid, "", err
		case !errors.As(err, &refusal):
			return "", "", fmt.Errorf("reach the API server at %s: %w", d.Host(), err)
		case isHidden(refusal.Status()):
			return "", apiclient.Reason(err), nil
		case isBusy(refusal.Status()):
			if err := wait.pause(ctx, err); err != nil {
				return "", "", err
			}
		default:
			return "", "", d.unidentified(refusal.Status())
		}
	}
}

func namespaceUID(raw []byte) (string, error) {
	o, err := apiclient.ParseObject(raw)
	if err != nil {
		return "", fmt.Errorf("read namespace kube-system, which tells clusters apart: %w", err)
	}
	return o.UID, nil
}

// isHidden reports that the API server does not let this user see the namespace, or has no such namespace. A proxy's page,
// which is not a Status, decides nothing.
func isHidden(s metav1.Status) bool {
	return s.Kind == "Status" && (s.Code == http.StatusForbidden || s.Code == http.StatusNotFound)
}

// isBusy reports that the server may answer otherwise in a moment.
func isBusy(s metav1.Status) bool {
	return s.Code == http.StatusTooManyRequests || s.Code >= http.StatusInternalServerError
}

// unidentified says what to do about an answer that tells nothing of the cluster, and that waiting does not mend.
func (d *Server) unidentified(s metav1.Status) error {
	if s.Code == http.StatusUnauthorized {
		return fmt.Errorf("the API server at %s refuses the credentials (401: %s): they are wrong, expired or revoked: "+
			"renew what the kubeconfig's user has (a token, certificate or login), or the Pod's ServiceAccount", d.Host(), s.Message)
	}
	return fmt.Errorf("%s answers %d to GET %s, and not as an API server does (%q): is there a proxy between, or is the address wrong?",
		d.Host(), s.Code, kubeSystem, s.Message)
}

// identityWait waits between two questions, and tells of it: at once, when the reason changes, and each minute.
type identityWait struct {
	server string
	log    *slog.Logger
	retry  *backoff.ExponentialBackOff
	reason string
	told   time.Time
}

func (w *identityWait) pause(ctx context.Context, err error) error {
	reason := strings.TrimSpace(apiclient.Reason(err))
	if reason != w.reason || time.Since(w.told) >= time.Minute {
		w.log.Warn("waiting for the API server to say which cluster it is", "server", w.server, "answer", reason)
		w.reason, w.told = reason, time.Now()
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("ask the API server at %s which cluster it is: it answers %q: %w", w.server, reason, ctx.Err())
	case <-time.After(max(w.retry.NextBackOff(), apiclient.RetryAfter(err))):
		return nil
	}
}

// fingerprint is that of the certificates of the CA, however their file is laid out; empty where the kubeconfig has none.
func fingerprint(config *rest.Config) (string, error) {
	ca := config.CAData
	if len(ca) == 0 && config.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			return "", fmt.Errorf("read the cluster's CA: %w", err)
		}
	}
	if len(ca) == 0 {
		return "", nil
	}
	sum := sha256.New()
	for block, more := pem.Decode(ca); block != nil; block, more = pem.Decode(more) {
		sum.Write(block.Bytes)
	}
	return "ca-sha256:" + hex.EncodeToString(sum.Sum(nil)[:16]), nil
}
