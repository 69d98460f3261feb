package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is a certificate authority that lives as long as one server.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority writes ca.crt to dir.
func newAuthority(dir string) (a *authority, err error) {
	a = &authority{dir: dir}
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	a.cert = certificate("kubecdc test CA")
	a.cert.IsCA, a.cert.BasicConstraintsValid, a.cert.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := a.sign(a.certFile(), a.cert, a.key.Public())
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	return a, err
}

func (a *authority) certFile() string { return filepath.Join(a.dir, "ca.crt") }

// sign writes a certificate.
func (a *authority) sign(file string, template *x509.Certificate, key any) (der []byte, err error) {
	if der, err = x509.CreateCertificate(rand.Reader, template, a.cert, key, a.key); err != nil {
		return nil, fmt.Errorf("issue a certificate for %s: %w", template.Subject.CommonName, err)
	}
	return der, writePEM(file, "CERTIFICATE", der)
}

// issue writes <name>.crt and <name>.key, good for a server on the loopback addresses and for a client, for a month.
func (a *authority) issue(name string) (certFile, keyFile string, err error) {
	return a.issueUntil(name, certificate(name).NotAfter)
}

func (a *authority) issueUntil(name string, end time.Time) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
	key, err := writeKey(keyFile, "PRIVATE KEY", func(key *ecdsa.PrivateKey) ([]byte, error) { return x509.MarshalPKCS8PrivateKey(key) })
	if err != nil {
		return "", "", err
	}
	template := certificate(name)
	template.NotAfter = end
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	_, err = a.sign(certFile, template, key.Public())
	return certFile, keyFile, err
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(30 * 24 * time.Hour),
	}
}

// writeAccountKey writes a key in the one form of an EC key that kube-apiserver takes to sign and to verify service account tokens.
func writeAccountKey(path string) error {
	_, err := writeKey(path, "EC PRIVATE KEY", x509.MarshalECPrivateKey)
	return err
}

func writeKey(path, kind string, marshal func(*ecdsa.PrivateKey) ([]byte, error)) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := marshal(key)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, writePEM(path, kind, der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
