package servers

import (
	"context"
	"errors"
	"os"
	"time"
)

// certify makes an authority, and certificates of the server and of the role client.
func (p *Postgres) certify() (err error) {
	if !p.opts.TLS {
		return nil
	}
	if p.ca, err = newAuthority(p.Dir); err != nil {
		return err
	}
	p.CACertFile = p.ca.certFile()
	if p.ClientCertFile, p.ClientKeyFile, err = p.ca.issue("client"); err != nil {
		return err
	}
	cert, key, err := p.ca.issue("postgres")
	if err != nil {
		return err
	}
	rules := "hostssl all client all cert\nhost all all all scram-sha-256\n"
	return errors.Join(os.WriteFile(p.instance.path("hba.conf"), []byte(rules), 0o644), p.user.give(cert), p.user.give(key),
		os.Chmod(p.CACertFile, 0o644))
}

func (p *Postgres) tlsSettings() map[string]string {
	if !p.opts.TLS {
		return nil
	}
	return map[string]string{"ssl": "on", "ssl_ca_file": p.CACertFile, "ssl_cert_file": p.instance.path("postgres.crt"),
		"ssl_key_file": p.instance.path("postgres.key"), "hba_file": p.instance.path("hba.conf")}
}

// Recertify replaces the authority and all that it issued, in the files that they had. The server trusts the new authority alone,
// and ends its sessions.
func (p *Postgres) Recertify(ctx context.Context) error {
	return errors.Join(p.certify(), p.Restart(ctx))
}

// CertifyClient replaces the client's certificate by one that is good until end, and ends the client's sessions.
func (p *Postgres) CertifyClient(ctx context.Context, end time.Time) error {
	_, _, err := p.ca.issueUntil("client", end)
	return errors.Join(err, p.exec("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'client'")(ctx))
}
