package dependency

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

	"kubecdc/internal/fault"
	"kubecdc/internal/kubeapi"
)

// Passing reports whether a failure may pass by itself. Any other failure ends the process, since somebody has to act.
func Passing(err error) bool {
	if db, ok := errors.AsType[*fault.Database](err); ok {
		return db.Transient // classified by the database's package
	}
	if proxy, ok := errors.AsType[*kubeapi.ProxyError](err); ok {
		// 5xx: the proxy can't reach the server, while 403 and 407 are its rules
		return proxy.Code >= http.StatusInternalServerError
	}
	status, isAnswer := errors.AsType[*apierrors.StatusError](err)
	switch {
	case isAnswer:
		code := status.Status().Code // 429 and 5xx: overloaded; the others are final
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	case isTrust(err), isLocal(err):
		return false
	case fault.Is[*url.Error](err):
		return true // no answer: refused, reset, no such host, a credential plugin that fails for now
	}
	return isDeadline(err) || isConnection(err)
}

// isTrust reports that one side rejects the other's certificate, or does not speak TLS.
func isTrust(err error) bool {
	alert, isOp := errors.AsType[*net.OpError](err)
	return fault.Is[*tls.CertificateVerificationError](err) || fault.Is[x509.UnknownAuthorityError](err) ||
		fault.Is[x509.HostnameError](err) || fault.Is[tls.RecordHeaderError](err) ||
		errors.Is(err, http.ErrSchemeMismatch) || isOp && alert.Op == "remote error"
}

// isLocal reports a problem on this machine: a file that can't be read, a credential plugin that is not installed (client-go
// returns only text for it), an invalid address.
func isLocal(err error) bool {
	text := err.Error()
	return fault.Is[*fs.PathError](err) || strings.Contains(text, "exec: executable ") && strings.Contains(text, " not found") ||
		strings.Contains(text, "unsupported protocol scheme")
}

func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// isConnection reports that a connection could not be made, or broke.
func isConnection(err error) bool {
	return fault.Is[*net.OpError](err) || fault.Is[*net.DNSError](err) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}
