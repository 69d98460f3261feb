package config

import (
	"crypto/tls"
	"fmt"
	"net/url"
)

func (l *loader) checkRegistry() {
	const name = "KUBECDC_SCHEMA_REGISTRY_URL"
	r := &l.c.Registry
	for _, text := range r.URLs {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			l.add(name, fmt.Sprintf("%q is no URL", redactValue(text)),
				"write http://HOST:PORT or https://HOST:PORT, with the path if it has one")
		case u.User != nil:
			l.add(name, "it has a user", "put the user into KUBECDC_SCHEMA_REGISTRY_USERNAME, and the password into _PASSWORD "+
				"or _PASSWORD_FILE")
		case u.Scheme == "http" && r.Username != "":
			l.warn(name + " is not https: the registry's password crosses the network in clear text")
		}
	}
	if len(r.URLs) == 0 && l.c.Records.Encoding == "avro" && byEnv["KUBECDC_ENCODING"].applies(l.c) {
		l.add(name, "not set, but KUBECDC_ENCODING is avro", "set it to the URL of a schema registry")
	}
	if _, err := authorities(r.CA); err != nil {
		l.add("KUBECDC_SCHEMA_REGISTRY_CA", fileError(err), "name a PEM file that this user can read")
	}
	l.checkRegistryPassword(r)
}

func (l *loader) checkRegistryPassword(r *Registry) {
	const name = "KUBECDC_SCHEMA_REGISTRY_PASSWORD"
	switch {
	case r.PasswordFile != "" && r.Password != "":
		l.add(name+"_FILE", "set together with "+name, "leave one of the two out")
	case r.PasswordFile != "":
		l.checkPasswordFile(name+"_FILE", r.PasswordFile)
	case r.Username != "" && r.Password == "":
		l.add(name, "not set, but KUBECDC_SCHEMA_REGISTRY_USERNAME is", "set it, or name a file in "+name+"_FILE")
	}
	if r.Username == "" && (r.Password != "" || r.PasswordFile != "") {
		l.add("KUBECDC_SCHEMA_REGISTRY_USERNAME", "not set, but there is a password", "set it to the user to log in as")
	}
}

// TLSConfig returns the TLS configuration to connect to an https URL with. It reads the file, which may have been rotated.
func (r *Registry) TLSConfig() (*tls.Config, error) {
	roots, err := authorities(r.CA)
	if err != nil {
		return nil, fmt.Errorf("read KUBECDC_SCHEMA_REGISTRY_CA: %w", err)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
