package audit

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"kubecdc/internal/rawjson"
)

// entry is a Cloud Logging entry as far as it is read, which GKE makes of an audit event
// (https://cloud.google.com/logging/docs/reference/audit/auditlog/rest/Shared.Types/AuditLog). It lacks the event's groups,
// impersonated user, and request's parameters.
type entry struct {
	InsertID                    string            // the event's audit id
	Labels                      map[string]string // its annotations
	Timestamp, ReceiveTimestamp time.Time
	Operation                   struct{ First, Last bool }
	ProtoPayload                struct {
		ServiceName        string // k8s.io
		MethodName         string // io.k8s.apps.v1.deployments.scale.patch
		ResourceName       string // apps/v1/namespaces/shop/deployments/web/scale
		AuthenticationInfo struct{ PrincipalEmail string }
		RequestMetadata    struct{ CallerIP, CallerSuppliedUserAgent string }
		Status             struct{ Code int }
		Request, Response  json.RawMessage
	}
}

// maybeWritten are the codes (google.rpc.Code) of failures within the server, after which an object may have been written:
// unknown, deadline exceeded, internal, unavailable and data loss.
var maybeWritten = []int{2, 4, 13, 14, 15}

// readEntry reads a log entry as the event that it was made of.
func (e *event) readEntry(raw []byte) bool {
	var log entry
	if json.Unmarshal(raw, &log) != nil {
		return false
	}
	p := &log.ProtoPayload
	*e = event{AuditID: log.InsertID, Stage: "ResponseComplete", RequestURI: p.ResourceName,
		Verb: p.MethodName[strings.LastIndexByte(p.MethodName, '.')+1:],
		User: requester{Username: p.AuthenticationInfo.PrincipalEmail}, UserAgent: p.RequestMetadata.CallerSuppliedUserAgent,
		RequestReceivedTimestamp: log.Timestamp, StageTimestamp: cmp.Or(log.ReceiveTimestamp, log.Timestamp),
		Annotations: log.Labels, request: p.Request,
		response: p.Response, terse: true}
	if p.RequestMetadata.CallerIP != "" {
		e.SourceIPs = []string{p.RequestMetadata.CallerIP}
	}
	switch code := p.Status.Code; {
	case p.ServiceName != "k8s.io", log.Operation.First && !log.Operation.Last: // another service's request, or one that goes on
		e.Stage = "ResponseStarted"
	case code == 0:
		e.ResponseStatus.Code = 200
	case slices.Contains(maybeWritten, code):
		e.ResponseStatus.Code = 500
	default:
		e.ResponseStatus.Code = 400
	}
	parts := append(strings.Split(p.ResourceName, "/"), "", "", "", "")
	e.ObjectRef.APIGroup, parts = strings.TrimPrefix(parts[0], "core"), parts[2:]
	if parts[0] == "namespaces" && parts[2] != "" && !strings.Contains(p.MethodName, ".namespaces.") {
		e.ObjectRef.Namespace, parts = parts[1], parts[2:]
	}
	e.ObjectRef.Resource, e.ObjectRef.Name, e.ObjectRef.Subresource = parts[0], parts[1], parts[2]
	e.ObjectRef.ResourceVersion = text(rawjson.Member(p.Request, "metadata"), "resourceVersion")
	return true
}
