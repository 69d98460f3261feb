package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ClusterUID identifies a cluster over time: the uid of namespace kube-system, or, where that may not be read, the
// fingerprint of the CA that signs the API server's certificate.
func ClusterUID(ctx context.Context, client *Client, config *rest.Config) (string, error) {
	raw, err := client.read(ctx, "/api/v1/namespaces/kube-system")
	if err == nil {
		o, err := parseObject(raw)
		return o.uid, err
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) { // no answer at all
		return "", fmt.Errorf("reach the API server at %s: %w", client.Host(), err)
	}
	ca := config.CAData
	if len(ca) == 0 && config.CAFile != "" {
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			return "", fmt.Errorf("read the cluster's CA: %w", err)
		}
	}
	if len(ca) == 0 {
		return "", fmt.Errorf("tell which cluster this is: namespace kube-system can't be read (%s) and the kubeconfig has no CA: "+
			"grant get on namespace kube-system, or set certificate-authority", reasonText(err))
	}
	sum := sha256.Sum256(ca)
	return "ca-sha256:" + hex.EncodeToString(sum[:16]), nil
}
