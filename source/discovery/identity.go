package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// Identify returns the identity of the cluster: the uid of namespace kube-system, and the fingerprint of the CA that the client
// trusts. The uid is empty only if the API server itself answers that the namespace may not be read (403) or does not exist
// (404). Any other answer is an error. An error of 429 or 5xx is an apierrors.APIStatus, so the caller can retry.
//
// From then on no answer of another cluster is used, if the uid is known. (If only the CA is, each connection proves it.)
func (d *Server) Identify(ctx context.Context) (change.ClusterIdentity, error) {
	var id change.ClusterIdentity
	var err error
	if id.CA, err = fingerprint(d.config); err != nil {
		return id, err
	}
	if id.UID, id.Hidden, err = d.clusterUID(ctx); err != nil {
		return id, err
	}
	if id.ID() == "" {
		return id, fmt.Errorf("tell which cluster this is: namespace kube-system can't be read (%s) and the kubeconfig has "+
			"no CA: "+
			"grant get on namespace kube-system, or set certificate-authority", id.Hidden)
	}
	d.client.Expect(id.UID)
	return id, nil
}

// OtherClusterError reports that the API server's address leads to another cluster than the one that was identified.
type OtherClusterError = apiclient.OtherClusterError

// OtherCluster waits until another cluster is found at the address, and returns the error that says so. It returns nil if ctx
// ends before.
func (d *Server) OtherCluster(ctx context.Context) error { return d.client.OtherCluster(ctx) }

// clusterUID returns the uid, or the server's message why it can't be read.
func (d *Server) clusterUID(ctx context.Context) (uid, hidden string, err error) {
	raw, err := d.client.Read(ctx, apiclient.KubeSystem)
	refusal, isAnswer := errors.AsType[*apierrors.StatusError](err)
	switch {
	case err == nil:
		o, err := apiclient.ParseObject(raw)
		if err != nil {
			err = fmt.Errorf("read namespace kube-system, which identifies the cluster: %w", err)
		}
		return o.UID, "", err
	case !isAnswer:
		return "", "", fmt.Errorf("reach the API server at %s: %w", d.Host(), err)
	case isHidden(refusal.Status()):
		return "", apiclient.Reason(err), nil
	}
	return "", "", d.unidentified(refusal.Status(), err)
}

// isHidden reports that this user may not read the namespace, or that the API server has no such namespace. A proxy's page is
// not a Status, and proves neither.
func isHidden(s metav1.Status) bool {
	return s.Kind == "Status" && (s.Code == http.StatusForbidden || s.Code == http.StatusNotFound)
}

// unidentified returns the error of an answer that does not identify the cluster, and what to do about it.
func (d *Server) unidentified(s metav1.Status, err error) error {
	switch {
	case s.Kind != "Status":
		return fmt.Errorf("a proxy%s, or whatever else is at %s, answers %d to GET %s, and not as an API server does "+
			"(%w): check "+
			"that proxy, or correct the address", d.client.ProxyName(), d.Host(), s.Code, apiclient.KubeSystem, err)
	case s.Code == http.StatusUnauthorized:
		return fmt.Errorf("the API server at %s refuses the credentials (401: %w): they are wrong, expired or revoked: "+
			"renew what the kubeconfig's user has (a token, certificate or login), or the Pod's ServiceAccount", d.Host(), err)
	}
	return fmt.Errorf("the API server at %s answers %d to GET %s: %w", d.Host(), s.Code, apiclient.KubeSystem, err)
}

// fingerprint returns a hash of the CA's certificates, without other contents of their file, or "" if the kubeconfig has no CA.
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
