package sqlite_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/sinktest"
)

// BenchmarkAudit writes what the API server's webhook sends: 400 events of writes at a time, by 50 users, of 2,000 objects. The
// events have the level Metadata, as with the policy. Times are CPU times.
func BenchmarkAudit(b *testing.B) {
	file := own(b, filepath.Join(b.TempDir(), "log"))
	intake := audit.NewIntake(audit.Parser{}, nil)
	defer intake.Open(newSink(b, file, sqlite.Config{Cluster: sinktest.Name}), nil)()
	webhook := audit.NewWebhook(intake, slog.New(slog.DiscardHandler))
	const atOnce = 400
	var spent time.Duration
	for n := 0; n < b.N; n += atOnce {
		body := []byte(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`)
		for i := range atOnce {
			body = append(auditEvent(body, n+i), ',')
		}
		body = append(body[:len(body)-1], "]}"...)
		request, answer := httptest.NewRequestWithContext(b.Context(), "POST", "/audit", bytes.NewReader(body)), httptest.NewRecorder()
		began := processor(b)
		if webhook.ServeHTTP(answer, request); answer.Code != 200 {
			b.Fatal(answer.Code, answer.Body)
		}
		spent += processor(b) - began
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64((b.N+atOnce-1)/atOnce*atOnce), "cpu-ns/event")
}

func auditEvent(b []byte, n int) []byte {
	moment := time.UnixMicro(1700000000000000 + int64(n)*500).UTC()
	const text = `{"level":"Metadata","auditID":"5dbc599e-0726-45ae-a2e7-%[1]012d","stage":"ResponseComplete","requestURI":` +
		`"/apis/apps/v1/namespaces/team-%[2]d/deployments/web-%[2]d?fieldManager=kubectl-client-side-apply\u0026fieldValidation=Strict","verb":"patch",` +
		`"user":{"username":"user-%[3]d@example.com","uid":"u-%[3]d","groups":["developers","system:authenticated"],"extra":{"authentication.kubernetes.io/` +
		`credential-id":["X509SHA256=d1b2c4a5e6f708192a3b4c5d6e7f8091"]}},"sourceIPs":["10.1.2.%[3]d"],"userAgent":"kubectl/v1.37.2 (linux/amd64) ` +
		`kubernetes/9c1e3b7","objectRef":{"resource":"deployments","namespace":"team-%[2]d","name":"web-%[2]d","apiGroup":"apps","apiVersion":"v1"},` +
		`"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"%[4]s","stageTimestamp":"%[5]s","annotations":{` +
		`"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by RoleBinding \"developers/team-%[2]d\" of ClusterRole ` +
		`\"edit\" to Group \"developers\"","kubecdc.audit/kubecdc-object-9-%[6]d":"0b1f4a52-6f0e-4dd8-9f0b-%012[2]d old %[1]d",` +
		`"kubecdc.audit/kubecdc-object-10-%[7]d":"0b1f4a52-6f0e-4dd8-9f0b-%012[2]d old %[1]d"}}`
	const micro = "2006-01-02T15:04:05.000000Z"
	return fmt.Appendf(b, text, 1000000+n, n%2000, n%50, moment.Format(micro), moment.Add(7*time.Millisecond).Format(micro), n%9, n%10)
}
