package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// It is a warning and not an error, since a new certificate is read at the next connection.
func TestAnExpiredCertificateIsWarnedOf(t *testing.T) {
	alone(t)
	end := time.Now().Add(-time.Hour)
	cert, key := expiredCertificate(t, end)
	_, warnings, err := Load([]string{"KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=h:1", "KUBECDC_KAFKA_TLS=on",
		"KUBECDC_KAFKA_TLS_CERT=" + cert, "KUBECDC_KAFKA_TLS_KEY=" + key}, nil)
	want := "KUBECDC_KAFKA_TLS_CERT: the certificate expired at " + end.UTC().Format(time.RFC3339)
	if err != nil || !strings.Contains(strings.Join(warnings, "\n"), want) {
		t.Errorf("warnings %q, error %v, want %q", warnings, err, want)
	}
}

func expiredCertificate(t *testing.T, end time.Time) (certFile, keyFile string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	return write("tls.crt", "CERTIFICATE", der), write("tls.key", "PRIVATE KEY", secret)
}
