package config

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/util/cert"
)

// certificate makes a self-signed certificate and its key.
func certificate(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()
	c, k, err := cert.GenerateSelfSignedCertKey("kafka.example.com", nil, nil)
	must(t, err)
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, text := range map[string][]byte{certFile: c, keyFile: k} {
		must(t, os.WriteFile(file, text, 0o600))
	}
	return certFile, keyFile
}
