package startup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/internal/dberror"
	"kubecdc/internal/kubeapi"
)

// Passing reports whether a failure may pass by itself. Any other failure ends the process, since somebody has to act.
func Passing(err error) bool {
	var db *dberror.Error
	var proxy *kubeapi.ProxyError
	var status apierrors.APIStatus
	var request *url.Error
	switch {
	case errors.As(err, &db):
		return db.Transient // classified by the database's package
	case errors.As(err, &proxy):
		return proxy.Code >= http.StatusInternalServerError // 5xx: the proxy can't reach the server; 403 and 407 are its rules
	case errors.As(err, &status):
		code := status.Status().Code // 429 and 5xx: overloaded; the others are final
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	case isTrust(err), isLocal(err):
		return false
	case errors.As(err, &request):
		return true // no answer: refused, reset, no such host, a credential plugin that fails for now
	}
	return isDeadline(err) || isConnection(err)
}

// isTrust reports that one side rejects the other's certificate, or does not speak TLS.
func isTrust(err error) bool {
	var verify *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var header tls.RecordHeaderError
	var alert *net.OpError
	return errors.As(err, &verify) || errors.As(err, &authority) || errors.As(err, &name) || errors.As(err, &header) ||
		errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &alert) && alert.Op == "remote error"
}

// isLocal reports a problem on this machine: a file that can't be read, a credential plugin that is not installed (client-go
// returns only text for it), an invalid address.
func isLocal(err error) bool {
	var file *fs.PathError
	text := err.Error()
	return errors.As(err, &file) || strings.Contains(text, "exec: executable ") && strings.Contains(text, " not found") ||
		strings.Contains(text, "unsupported protocol scheme")
}

// isDeadline reports that an attempt took too long.
func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// isConnection reports that a connection could not be made, or broke.
func isConnection(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) || errors.As(err, &dns) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
