package config

import (
	"fmt"
	"net"
	"os"
	"strings"
)

// leastToken is the length of the shortest token that may protect the status page.
const leastToken = 16

const howToken = "such as openssl rand -hex 32 makes"

func (l *loader) checkHTTP() {
	h := &l.c.HTTP
	if l.c.Process.Listen == "off" {
		for _, s := range all {
			if strings.HasPrefix(s.Env, "KUBECDC_HTTP_") && l.set(s.Env) {
				l.warn(s.Env + " has no effect while KUBECDC_LISTEN is off")
			}
		}
	}
	l.checkHTTPToken(h)
	l.checkCertificate("KUBECDC_HTTP_TLS_CERT", h.TLSCert, "KUBECDC_HTTP_TLS_KEY", h.TLSKey)
	protected := h.Access != "open" && !l.bad["KUBECDC_HTTP_ACCESS"]
	if protected && h.TLSCert == "" && !Loopback(l.c.Process.Listen) && l.c.Process.Listen != "off" {
		l.warn("KUBECDC_HTTP_ACCESS is " + h.Access + " without KUBECDC_HTTP_TLS_CERT: tokens cross the network in clear text")
	}
}

func (l *loader) checkHTTPToken(h *HTTP) {
	const name = "KUBECDC_HTTP_TOKEN_FILE"
	switch {
	case h.Access == "token" && h.TokenFile == "":
		l.add(name, "not set, but KUBECDC_HTTP_ACCESS is token", "name a file with a token of at least 16 characters, "+howToken)
	case h.Access != "token" && h.TokenFile != "" && !l.bad["KUBECDC_HTTP_ACCESS"]:
		l.add(name, "set, but KUBECDC_HTTP_ACCESS is "+h.Access, "set KUBECDC_HTTP_ACCESS=token, or leave it out")
	case h.TokenFile != "":
		l.checkTokenFile(name, h.TokenFile)
	}
}

func (l *loader) checkTokenFile(name, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		l.add(name, fileError(err), "name a file that this user can read")
	} else if n := len(strings.TrimSpace(string(text))); n < leastToken {
		l.add(name, fmt.Sprintf("the token has %d characters, and needs %d", n, leastToken), "write a longer one, "+howToken)
	}
}

// Loopback reports that only this machine reaches the address.
func Loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
