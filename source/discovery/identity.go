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

// Identify asks the API server which cluster it is: the uid of namespace kube-system, and the fingerprint of the CA that
// the client trusts. Only where the server itself says that the namespace may not be read (403), or that there is none
// (404), is the uid left empty. Any other answer is an error; one of 429 or 5xx is an apierrors.APIStatus, so that the caller
// can ask again.
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
		return id, fmt.Errorf("tell which cluster this is: namespace kube-system can't be read (%s) and the kubeconfig has no CA: "+
			"grant get on namespace kube-system, or set certificate-authority", id.Hidden)
	}
	return id, nil
}

const kubeSystem = "/api/v1/namespaces/kube-system"

// clusterUID returns the uid, or why it can't be had, in the server's words.
func (d *Server) clusterUID(ctx context.Context) (uid, hidden string, err error) {
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
	}
	return "", "", d.unidentified(refusal.Status(), err)
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

// unidentified says what to do about an answer that tells nothing of the cluster.
func (d *Server) unidentified(s metav1.Status, err error) error {
	switch {
	case s.Kind != "Status":
		return fmt.Errorf("a proxy%s, or whatever else is at %s, answers %d to GET %s, and not as an API server does (%w): look at "+
			"that proxy, or correct the address", d.client.ProxyName(), d.Host(), s.Code, kubeSystem, err)
	case s.Code == http.StatusUnauthorized:
		return fmt.Errorf("the API server at %s refuses the credentials (401: %w): they are wrong, expired or revoked: "+
			"renew what the kubeconfig's user has (a token, certificate or login), or the Pod's ServiceAccount", d.Host(), err)
	}
	return fmt.Errorf("the API server at %s answers %d to GET %s: %w", d.Host(), s.Code, kubeSystem, err)
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
