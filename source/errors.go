package source

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/internal/rawjson"
)

// Which answers of the API server mean what. All that is not named here is retried with backoff as it is.

// isGone: the server can't deliver what follows this resourceVersion, or can't go on with this continue token:
// 410, as HTTP status or as ERROR event, with the reason Expired (compacted, or older than the watch cache) or Gone.
func isGone(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// isRefused: this stream can't be read for now (no permission, no such resource), and waiting a little won't mend
// it. The stream is reported and tried again slowly; the others go on.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err)
}

// isInvalid: the server does not understand the request (an aggregated API server without exact reads, say).
func isInvalid(err error) bool {
	return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsNotAcceptable(err)
}

// errUnsupported: the server gives no resourceVersions that are numbers, or no uids, so neither an order nor a deletion
// can be told (an aggregated API server with a store of its own may be so). Nothing of the resource can be exported, and
// that is for its server to change: it is said once, and tried again rarely. The other streams go on.
var errUnsupported = errors.New("its API server gives no numeric resourceVersion")

// errNameless: an object without a name is none.
var errNameless = errors.New("its metadata has no name")

// isUnreadable: an answer that is no list, or has an object that can't be read. To ask again is no use.
func isUnreadable(err error) bool {
	return errors.Is(err, rawjson.ErrMalformed) || errors.Is(err, errNameless) || errors.Is(err, errUnsupported)
}

// errBehind: the server seems to be older than the log. It is asked again before anything is concluded.
var errBehind = errors.New("the server seems to be behind the log")

// retryAfter is how long the server asks us to stay away (429 and 503 and 504 carry it); 0 when it does not say.
func retryAfter(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// isEnd: the connection ended as watches do: at the server's timeout, at a restart, or cut. The stream goes on
// from its position; it is no failure until it repeats.
func isEnd(err error) bool {
	var netErr net.Error
	return errors.Is(err, errSilent) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &netErr) && !errors.Is(err, context.Canceled)
}

// reasonText is a short reason for logs: the server's own words where it gave some.
func reasonText(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message != "" {
		return status.Status().Message
	}
	return err.Error()
}
