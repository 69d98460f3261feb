package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
)

// admission is a mutating webhook, like one of a service mesh or a policy engine. It copies an annotation. It stamps each request
// for some names with a number, so that even an empty request writes. Or it takes a change back, so that even a request for a
// change may not write, or refuses it.
type admission struct {
	*httptest.Server
	asked, stamped atomic.Int64
	reverted       sync.Map // the requests whose change it took back, by the text that they have written into it
}

// installAdmission installs the webhook, and waits until it is in force.
func (w *whoWorld) installAdmission(t *testing.T) *admission {
	t.Helper()
	a := &admission{}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(a.review))
	t.Cleanup(a.Close)
	client := kubernetes.NewForConfigOrDie(w.kube.Config)
	none, url, all := registrationv1.SideEffectClassNone, a.URL, registrationv1.NamespacedScope
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	rule := registrationv1.Rule{APIGroups: []string{"", "apps", "example.com"}, APIVersions: []string{"*"}, Scope: &all,
		Resources: []string{"configmaps", "deployments", "widgets"}}
	_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "mesh"}, Webhooks: []registrationv1.MutatingWebhook{{Name: "mesh.example.com",
			ClientConfig: registrationv1.WebhookClientConfig{URL: &url, CABundle: ca}, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			Rules: []registrationv1.RuleWithOperations{{Rule: rule, Operations: []registrationv1.OperationType{"CREATE", "UPDATE"}}}}}}, metav1.CreateOptions{})
	must(t, err)
	Await(t, "the admission webhook to be in force", func() (bool, error) {
		name := w.probe(t)
		cm, err := client.CoreV1().ConfigMaps("kube-public").Get(context.Background(), name, metav1.GetOptions{})
		return err == nil && cm.Annotations["copy"] == "made", err
	})
	return a
}

func (a *admission) review(answer http.ResponseWriter, r *http.Request) {
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	n, written, was := a.asked.Add(1), &unstructured.Unstructured{}, &unstructured.Unstructured{}
	_ = written.UnmarshalJSON(review.Request.Object.Raw) // the API server has encoded it
	wanted := maps.Clone(written.GetAnnotations())
	if wanted == nil {
		wanted = map[string]string{}
	}
	kind, name := admissionv1.PatchTypeJSONPatch, review.Request.Name
	update := review.Request.OldObject.Raw != nil && was.UnmarshalJSON(review.Request.OldObject.Raw) == nil
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, PatchType: &kind}
	switch {
	case name == "shared-3" && n%4 == 0:
		review.Response.Allowed = false
		review.Response.Result = &metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "refused"}
	case strings.HasSuffix(name, "-5"):
		wanted["stamp"] = string(review.Request.UID)
		a.stamped.Add(1)
	case strings.HasSuffix(name, "-4") && update && n%3 == 0:
		a.reverted.Store(wanted["by"], true)
		wanted = was.GetAnnotations()
	case wanted["by"] == "":
		wanted["copy"] = "made"
	default:
		wanted["copy"] = wanted["by"]
	}
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/metadata/annotations", "value": wanted}})
	if err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	if review.Request = nil; review.Response.Allowed {
		review.Response.Patch = patch
	} else {
		review.Response.PatchType = nil
	}
	answer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(answer).Encode(review)
}
