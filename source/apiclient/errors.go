package apiclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/internal/rawjson"
)

// This file says which answers of the API server mean what. Callers retry everything that is not named here with backoff.

// IsGone reports that the server can't deliver what follows a resourceVersion, or can't go on with a continue token:
// 410, as HTTP status or as ERROR event, with the reason Expired (compacted, or older than the watch cache) or Gone.
func IsGone(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// IsRefused reports that a collection can't be read for now (no permission, no such resource) and that waiting a little
// won't mend it. Its stream is reported and tried again slowly; other streams go on.
func IsRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err)
}

// IsInvalid reports that the server does not understand the request, as an aggregated API server without exact reads.
func IsInvalid(err error) bool {
	return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsNotAcceptable(err)
}

// ErrUnsupported reports a server whose resourceVersions are not numbers, or whose objects have no uids (an aggregated API
// server with a store of its own may be so). Without them neither the order of changes nor a deletion can be told, and the
// resource can't be exported until its server changes.
var ErrUnsupported = errors.New("its API server gives no numeric resourceVersion")

// ErrNameless reports an object without a name.
var ErrNameless = errors.New("its metadata has no name")

// IsUnreadable reports an answer that is not a list, or that has an object that can't be read. Asking again is no use.
func IsUnreadable(err error) bool {
	return errors.Is(err, rawjson.ErrMalformed) || errors.Is(err, ErrNameless) || errors.Is(err, ErrUnsupported)
}

// IsOverload reports that the server has no time for the request, or broke off. It should be asked less.
func IsOverload(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code == http.StatusTooManyRequests || status.Status().Code >= http.StatusInternalServerError
	}
	return IsConnectionEnd(err)
}

// RetryAfter returns how long the server asks its clients to stay away (429, 503 and 504 carry it); 0 if it does not say.
func RetryAfter(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// IsConnectionEnd reports that the connection ended as watches do: at the server's timeout, at a restart, or cut. The stream
// goes on from its position; only an end that repeats is a failure.
func IsConnectionEnd(err error) bool {
	var netErr net.Error
	return errors.Is(err, ErrIdle) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &netErr) && !errors.Is(err, context.Canceled)
}

// Reason returns a short reason for logs: the server's own words if it gave any.
func Reason(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message != "" {
		return status.Status().Message
	}
	return err.Error()
}
