package servers

import (
	"context"
	"errors"
	"os"
	"time"
)

// certify makes an authority, the broker's key store and a client's certificate, where there is a listener with TLS.
func (k *Kafka) certify() error {
	if !k.opts.TLS && !k.opts.Guarded {
		return nil
	}
	var err error
	if k.ca, err = newAuthority(k.Dir); err != nil {
		return err
	}
	k.CACertFile = k.ca.certFile()
	k.keystore = k.instance.path("keystore.pem")
	if k.ClientCertFile, k.ClientKeyFile, err = k.ca.issue("client"); err != nil {
		return err
	}
	return k.certifyBroker(certificate("kafka").NotAfter)
}

// certifyBroker makes the broker's key store: one PEM file with key and certificate.
func (k *Kafka) certifyBroker(end time.Time) error {
	certFile, keyFile, err := k.ca.issueUntil("kafka", end)
	if err != nil {
		return err
	}
	cert, err1 := os.ReadFile(certFile)
	key, err2 := os.ReadFile(keyFile)
	return errors.Join(err1, err2, os.WriteFile(k.keystore, append(key, cert...), 0o600))
}

// Recertify replaces the authority and all that it issued, in the files that they had. It restarts the broker with a certificate that is
// good until end. The broker trusts the new authority alone.
func (k *Kafka) Recertify(ctx context.Context, end time.Time) error {
	return errors.Join(k.Reissue(end), k.Restart(ctx))
}

// Reissue does so without the restart: the broker goes on with what it has read.
func (k *Kafka) Reissue(end time.Time) error { return errors.Join(k.certify(), k.certifyBroker(end)) }

// CertifyClient replaces the client's certificate by one that is good until end.
func (k *Kafka) CertifyClient(end time.Time) error {
	_, _, err := k.ca.issueUntil("client", end)
	return err
}
