package apiclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/internal/rawjson"
)

// This file classifies the API server's errors. Callers retry with backoff every error that is in no class.

// IsGone reports that the server can't deliver what follows a resourceVersion, or can't go on with a continue token. That is a
// 410, as HTTP status or as ERROR event, with the reason Expired (compacted, or older than the watch cache) or Gone.
func IsGone(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// IsRefused reports that a collection can't be read (no permission, no such resource), and that a short wait will not change
// that. The stream reports it and retries slowly, while other streams go on.
func IsRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsMethodNotSupported(err)
}

// IsInvalid reports that the server does not understand the request, as an aggregated API server without exact reads.
func IsInvalid(err error) bool {
	return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsNotAcceptable(err)
}

// ErrUnsupported reports a server whose resourceVersions are not numbers, or whose objects have no uids. An aggregated API server
// with its own store may be one. Without them neither the order of changes nor a deletion is known, and the resource can't be
// exported.
var ErrUnsupported = errors.New("its API server gives no numeric resourceVersion")

// ErrName reports an object without a name, or with one that is too long (maxName) or not UTF-8.
var ErrName = errors.New("its name is missing, too long or not UTF-8")

// TooLargeError reports an object that is too large to be held in memory (rawjson.LargestValue). Objects of kube-apiserver are
// below 10 MB: etcd accepts 1.5 MB for an object, and its JSON may be six times as large.
type TooLargeError struct {
	Key     string // empty if it is not known
	Version change.ResourceVersion
	Bytes   int64
}

func (e *TooLargeError) Error() string {
	what := "an object"
	if e.Key != "" {
		what = fmt.Sprintf("object %q at resourceVersion %s", e.Key, quoteVersion(string(e.Version)))
	}
	return fmt.Sprintf("%s has %d bytes, and kubecdc accepts %d: only its beginning is kept", what, e.Bytes, rawjson.LargestValue)
}

// IsUnloggable reports an object that has all that the protocol needs, and a name that no record takes. Its states are dead
// letters.
func IsUnloggable(o *Object, err error) bool { return errors.Is(err, ErrName) && o.Name != "" }

// IsUnreadable reports a response that is not a list, or that has an object that can't be read. A retry does not help.
func IsUnreadable(err error) bool {
	return errors.Is(err, rawjson.ErrMalformed) || errors.Is(err, ErrName) || errors.Is(err, ErrUnsupported) ||
		fault.Is[*TooLargeError](err)
}

// StatusCode returns the HTTP status of an answer that is an error, or of a refused check of the cluster. It returns 0 for other
// errors.
func StatusCode(err error) int32 {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.Status().Code
	}
	check, _ := errors.AsType[notCheckedError](err)
	return check.code
}

// IsInternal reports that the server failed: 500. It may fail at this one request each time, for every client. An example is a
// list of objects that were stored in a version that it does not know any more.
func IsInternal(err error) bool { return StatusCode(err) == http.StatusInternalServerError }

// IsOverload reports that the server is overloaded or cut the response. The client should send fewer requests.
func IsOverload(err error) bool {
	code := StatusCode(err)
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError || code == 0 && IsConnectionEnd(err)
}

// maxRetryAfter is the longest wait that a server can ask for. A proxy that says a day means no stream in particular.
const maxRetryAfter = time.Minute

// RetryAfter returns the server's Retry-After (429, 503 and 504 have one), a minute at most, or 0 if there is none.
func RetryAfter(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// IsConnectionEnd reports that the connection ended: at the server's timeout, at its restart, or because it was cut. The stream
// goes on from its position. Only an end that repeats is a failure.
func IsConnectionEnd(err error) bool {
	return errors.Is(err, ErrIdle) || errors.Is(err, errMoved) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		fault.Is[net.Error](err) && !errors.Is(err, context.Canceled)
}

// Reason returns a short reason for logs: the message of the server's Status if it sent one.
func Reason(err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.Status().Message != "" {
		return status.Status().Message
	}
	return err.Error()
}
