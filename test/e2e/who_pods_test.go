package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/change"
	"kubecdc/sinks"
)

var serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}

// pod is the life of a Pod. It is bound to a node or not, and gets a status, ephemeral containers and tokens. Then it is deleted
// gracefully, by force or by an eviction. A Pod without a node is removed at once. Otherwise the node ends it, with a grace period
// of 0 seconds, so that one request makes two versions.
func (w *requester) pod(user string) {
	o := w.create(user, Pods, w.unique("pod"), func(o *unstructured.Unstructured) {
		unstructured.RemoveNestedField(o.Object, "spec", "nodeName")
		unstructured.RemoveNestedField(o.Object, "status")
		_ = unstructured.SetNestedField(o.Object, "sa", "spec", "serviceAccountName")
	})
	if o == nil {
		return
	}
	anyone := func() string { return writers[w.random.IntN(5)] }
	name, uid, bound := o.GetName(), string(o.GetUID()), w.random.IntN(3) > 0
	if bound {
		w.known(w.bound, uid, w.post(operator, Pods.GVR, "binding", map[string]any{"apiVersion": "v1", "kind": "Binding",
			"metadata": map[string]any{"name": name, "uid": uid}, "target": map[string]any{"kind": "Node", "name": "n"}}))
		w.patch(anyone(), Pods, name, `{"status":{"message":"r%d"}}`, "status")
		w.patch(anyone(), Pods, name, `{"spec":{"ephemeralContainers":[{"name":"r%d","image":"i"}]}}`, "ephemeralcontainers")
		w.post(anyone(), serviceAccounts, "token", map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
			"metadata": map[string]any{"name": "sa"}, "spec": map[string]any{"boundObjectRef": map[string]any{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}}})
	}
	if w.random.IntN(3) == 0 {
		w.tolerate(w.deleteDry(anyone(), Pods, name))
	}
	step := w.random.IntN(3)
	var id string
	switch {
	case step == 0:
		id = w.post(anyone(), Pods.GVR, "eviction", map[string]any{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": name}})
	default:
		options := metav1.DeleteOptions{}
		if now := int64(0); step == 1 {
			options.GracePeriodSeconds = &now
		}
		id = w.end(anyone(), name, options)
	}
	if w.known(w.deleted, uid, id); bound && step != 1 {
		now := int64(0)
		id = w.end(anyone(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	}
	w.known(w.ended, uid, id)
}

// end deletes a Pod, and returns the request's id.
func (w *requester) end(user, name string, options metav1.DeleteOptions) string {
	ctx, id := w.request(user)
	_, err := w.deleteNow(ctx, user, Pods, name, options)
	w.tolerate(err)
	return fmt.Sprint("r", id)
}

// deleteDry sends a dry run in the request's body, like kubectl.
func (w *requester) deleteDry(user string, kind Kind, name string) error {
	ctx, _ := w.request(user)
	_, err := w.deleteNow(ctx, user, kind, name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// post creates a subresource, and returns the request's id.
func (w *requester) post(user string, resource schema.GroupVersionResource, subresource string, body map[string]any) string {
	ctx, id := w.request(user)
	_, err := w.clients[user].Resource(resource).Namespace(w.namespace).Create(ctx, &unstructured.Unstructured{Object: body}, metav1.CreateOptions{}, subresource)
	w.tolerate(err)
	return fmt.Sprint("r", id)
}

// known records the request that changed an object, by the object's uid.
func (w *requester) known(users map[string]string, uid, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	users[uid] = id
}

// lie writes an object with managedFields that name another author and another time.
func (w *requester) lie(user string, kind Kind, name string) {
	ctx, id := w.request(user)
	o, err := w.client(user, kind).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.tolerate(err)
		return
	}
	fields := o.GetManagedFields()
	for i := range fields {
		claimed := metav1.NewTime(time.Now().Add([]time.Duration{3 * time.Second, -time.Hour, time.Hour}[w.random.IntN(3)]))
		fields[i].Time, fields[i].Manager = &claimed, fmt.Sprint("invented-", w.random.IntN(3))
	}
	o.SetManagedFields(fields)
	o.SetAnnotations(map[string]string{"by": fmt.Sprint("r", id)})
	o, err = w.client(user, kind).Update(ctx, o, metav1.UpdateOptions{})
	w.answer(id, o, err)
}

// makeAccounts creates the ServiceAccounts whose tokens are requested.
func (r *requesters) makeAccounts() {
	for _, namespace := range whoNamespaces {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "sa"}}}
		_, err := r.clients[operator].Resource(serviceAccounts).Namespace(namespace).Create(context.Background(), o, metav1.CreateOptions{})
		r.tolerate(err)
	}
}

// podRequest returns the test's request that bound or evicted a Pod, or ended its grace period.
func (r *requesters) podRequest(l *sinks.Logged) string {
	grace := func(o []byte) string { return textAt(o, "metadata deletionGracePeriodSeconds") }
	disrupted := func(o []byte) bool { return strings.Contains(textAt(o, "status conditions"), "DisruptionTarget") }
	switch {
	case change.ResourceOf(l.Stream.ID()).ID() != "pods" || l.Before == nil || l.After == nil:
	case textAt(l.Before, "spec nodeName") != textAt(l.After, "spec nodeName"):
		return r.bound[l.UID]
	case deleting(l.Before) && grace(l.Before) != "0" && grace(l.After) == "0":
		return r.ended[l.UID]
	case disrupted(l.After) && !disrupted(l.Before):
		return r.deleted[l.UID]
	}
	return ""
}
