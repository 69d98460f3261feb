package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

const (
	collector = "system:serviceaccount:kube-system:generic-garbage-collector"
	remover   = "system:serviceaccount:kube-system:namespace-controller"
	operator  = "system:serviceaccount:shop:operator"
)

// whoNamespaces are the namespaces that the writers write.
var whoNamespaces = []string{"default", "shop", "lab"}

// writers are five people and two controllers.
var writers = []string{"alice", "bob", "carol", "dave", "erin", operator, collector}

func writerUsers() (users []servers.User) {
	for _, name := range writers {
		users = append(users, servers.User{Name: name, Token: "token-of-" + strings.ReplaceAll(name, ":", "-"), Groups: []string{"system:masters"}})
	}
	return append(users, servers.User{Name: "mallory", Token: "token-of-mallory"})
}

// requesters writes as several users at once. Each request has its own audit id, and writes it into the object as an annotation. If
// a subresource takes no annotation, the id is a number. So a change names its request. If it does not, because a webhook has
// changed the object, the version in the request's answer does.
type requesters struct {
	t          *testing.T
	clients    map[string]dynamic.Interface
	controlled bool // real controllers collect garbage and remove namespaces
	lies       bool // some write wrong managedFields, so events must have versions
	admission  *admission
	hidden     hiddenWrites

	mu       sync.Mutex
	made     int
	users    map[string]string   // the user of each request, by its id
	again    map[string]string   // for a request that repeats another one: the other one
	answered map[string][]string // the requests whose answer had a version, by uid and version. All but one of them changed nothing
	deleted  map[string]string   // the request that began an object's deletion, by uid
	ended    map[string]string   // the request that ended it, if that is another version
	bound    map[string]string   // the request that bound a Pod to a node
	bulk     map[string]bool     // the requests that delete collections
}

type auditID struct{}

// identified gives each request the audit id of its context.
type identified struct{ next http.RoundTripper }

func (i identified) RoundTrip(r *http.Request) (*http.Response, error) {
	if id, ok := r.Context().Value(auditID{}).(string); ok {
		r = r.Clone(r.Context())
		r.Header.Set("Audit-ID", id)
	}
	return i.next.RoundTrip(r)
}

func newRequesters(t *testing.T, kube *servers.Kubernetes) *requesters {
	r := &requesters{t: t, clients: map[string]dynamic.Interface{}, users: map[string]string{}, again: map[string]string{}, answered: map[string][]string{},
		deleted: map[string]string{}, ended: map[string]string{}, bound: map[string]string{}, bulk: map[string]bool{}}
	add := func(name, user, impersonated string) {
		config := kube.UserConfig(kube.Address, "token-of-"+strings.ReplaceAll(user, ":", "-"))
		config.UserAgent, config.Impersonate.UserName = "writer/1", impersonated
		if impersonated != "" {
			config.Impersonate.Groups = []string{"system:masters"}
		}
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return identified{next} })
		r.clients[name] = dynamic.NewForConfigOrDie(config)
	}
	for _, name := range append(slices.Clone(writers), "mallory") {
		add(name, name, "")
	}
	add("erin as root", "erin", "root")
	return r
}

// request begins a user's request, and returns its context and its number, which is also its audit id.
func (r *requesters) request(user string) (context.Context, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	r.users[fmt.Sprint("r", r.made)] = user
	return context.WithValue(context.Background(), auditID{}, fmt.Sprint("r", r.made)), r.made
}

// answer records the request that was answered with a version.
func (r *requesters) answer(id int, o *unstructured.Unstructured, err error) {
	r.tolerate(err)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		key := string(o.GetUID()) + " " + o.GetResourceVersion()
		r.answered[key] = append(r.answered[key], fmt.Sprint("r", id))
	}
}

// tolerate fails the test unless the error is one that the writers cause each other.
func (r *requesters) tolerate(err error) {
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		r.t.Error(err)
	}
}

// obscure reports whether several requests may have made a change, because the webhook took back all of it except managedFields.
func (r *requesters) obscure(l *sinks.Logged) bool {
	return len(r.answered[l.UID+" "+string(l.ResourceVersion)]) > 1
}

// run makes about n writes.
func (r *requesters) run(seed uint64, n int) {
	var all sync.WaitGroup
	for i := range writersAtOnce {
		all.Go(func() {
			w := &requester{r, rand.New(rand.NewPCG(seed, uint64(i))), i, "default", 0}
			for range n / writersAtOnce {
				w.namespace = whoNamespaces[w.random.IntN(len(whoNamespaces))]
				w.one()
			}
		})
	}
	all.Wait()
}

// writersAtOnce is the number of concurrent writers.
const writersAtOnce = 12

// requester is one of the concurrent writers.
type requester struct {
	*requesters
	random    *rand.Rand
	number    int
	namespace string
	names     int
}

func (w *requester) client(user string, kind Kind) dynamic.ResourceInterface {
	return w.clients[user].Resource(kind.GVR).Namespace(w.namespace)
}

// unique returns a name that no other object has.
func (w *requester) unique(what string) string {
	w.names++
	return fmt.Sprint(what, "-", w.number, "-", w.names)
}

// one makes a random write, or several related ones.
func (w *requester) one() {
	user := append(slices.Clone(writers[:6]), "erin as root")[w.random.IntN(7)]
	kind := []Kind{ConfigMaps, Deployments, Widgets}[w.random.IntN(3)]
	name := fmt.Sprint("shared-", w.random.IntN(6))
	switch percent := w.random.IntN(100); {
	case w.hidden.setting != "" && w.random.IntN(5) == 0:
		w.patch(user, kind, name, []string{w.hidden.patch, w.hidden.patch, w.hidden.other}[w.random.IntN(3)])
	case percent < 3:
		w.pod(user)
	case percent < 8:
		w.create(user, kind, name, nil)
	case percent < 10:
		w.tolerate(w.delete(user, kind, name))
	case percent < 35:
		w.patch(user, kind, name, `{"metadata":{"annotations":{"by":"r%d"}}}`)
	case percent < 50:
		w.put(user, kind, name, false)
	case percent < 53 && w.lies:
		w.lie(user, kind, name)
	case percent < 56:
		w.put(user, kind, name, true)
	case percent < 64:
		w.patch(user, kind, name, `{"metadata":{"labels":{"fixed":"yes"}}}`)
	case percent < 78:
		w.apply(user, kind, name)
	case percent < 83:
		w.patch(user, Deployments, name, `{"spec":{"replicas":%d}}`, "scale")
	case percent < 88:
		w.patch(user, Deployments, name, `{"status":{"observedGeneration":%d}}`, "status")
	case percent < 89:
		w.tolerate(w.deleteDry(user, kind, name))
	case percent < 90:
		ctx, id := w.request(user)
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"by":"r%d"}}}`, id)
		_, err := w.client(user, kind).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{"All"}})
		w.tolerate(err)
	case percent < 92:
		ctx, _ := w.request("mallory")
		if err := w.client("mallory", kind).Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			w.t.Errorf("mallory may delete: %v", err)
		}
	case percent < 96:
		w.finalized(user, kind)
	case w.random.IntN(10) > 0:
		w.cascade(user)
	case w.controlled && w.random.IntN(2) == 0:
		w.removal(user)
	default:
		w.collection(user)
	}
}

// create creates an object that has the request's id, and returns the API server's answer.
func (w *requester) create(user string, kind Kind, name string, more func(*unstructured.Unstructured)) *unstructured.Unstructured {
	ctx, id := w.request(user)
	o := sample(kind, name, 0, 0)
	o.SetAnnotations(map[string]string{"by": fmt.Sprint("r", id)})
	o.SetLabels(map[string]string{"fixed": "yes"})
	if w.random.IntN(4) == 0 && more != nil {
		o.SetGenerateName(name + "-")
		o.SetName("")
	}
	if more != nil {
		more(o)
	}
	made, err := w.client(user, kind).Create(ctx, o, metav1.CreateOptions{})
	w.answer(id, made, err)
	return made
}

func (w *requester) patch(user string, kind Kind, name, patch string, subresource ...string) {
	ctx, id := w.request(user)
	if strings.Contains(patch, "%d") {
		patch = fmt.Sprintf(patch, id)
	}
	o, err := w.client(user, kind).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	w.answer(id, o, err)
}

// put reads an object and writes it, changed or unchanged. Half of the writes insist on the version, and are retried on a conflict,
// like in client-go.
func (w *requester) put(user string, kind Kind, name string, asItIs bool) {
	for range 3 {
		ctx, id := w.request(user)
		o, err := w.client(user, kind).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			w.tolerate(err)
			return
		}
		if !asItIs {
			o.SetAnnotations(map[string]string{"by": fmt.Sprint("r", id)})
			if kind != Widgets && w.random.IntN(2) == 0 {
				o.SetResourceVersion("")
			}
		}
		o, err = w.client(user, kind).Update(ctx, o, metav1.UpdateOptions{})
		w.answer(id, o, err)
		if !apierrors.IsConflict(err) {
			return
		}
	}
}

// apply applies an object. In one of three cases it applies it again, which mostly changes nothing.
func (w *requester) apply(user string, kind Kind, name string) {
	ctx, id := w.request(user)
	o := sample(kind, name, 0, 0)
	o.SetAnnotations(map[string]string{"by": fmt.Sprint("r", id)})
	o.SetLabels(map[string]string{"fixed": "yes"})
	unstructured.RemoveNestedField(o.Object, "spec", "replicas") // not owned by the applier
	options := metav1.ApplyOptions{FieldManager: "applier-" + strings.ReplaceAll(user, " ", "-"), Force: true}
	got, err := w.client(user, kind).Apply(ctx, name, o, options)
	w.answer(id, got, err)
	if w.random.IntN(3) == 0 {
		ctx, again := w.request(user)
		w.mu.Lock()
		w.again[fmt.Sprint("r", again)] = fmt.Sprint("r", id)
		w.mu.Unlock()
		got, err := w.client(user, kind).Apply(ctx, name, o, options)
		w.answer(again, got, err)
	}
}

// delete deletes an object that no other request deletes with success.
func (w *requester) delete(user string, kind Kind, name string, how ...metav1.DeletionPropagation) error {
	ctx, id := w.request(user)
	options := metav1.DeleteOptions{}
	for _, propagation := range how {
		options.PropagationPolicy = &propagation
	}
	uid, err := w.deleteNow(ctx, user, kind, name, options)
	if err == nil {
		w.mu.Lock()
		w.deleted[uid] = fmt.Sprint("r", id)
		w.mu.Unlock()
	}
	return err
}

// deleteNow deletes an object, and returns its uid.
func (w *requester) deleteNow(ctx context.Context, user string, kind Kind, name string, options metav1.DeleteOptions) (string, error) {
	o, err := w.client(user, kind).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	uid := o.GetUID()
	options.Preconditions = &metav1.Preconditions{UID: &uid}
	return string(uid), w.client(user, kind).Delete(ctx, name, options)
}

// finalized is an object's life with a finalizer: two users delete it, and a third one ends it. The answer to an update that ends
// it has the version before.
func (w *requester) finalized(user string, kind Kind) {
	o := w.create(user, kind, fmt.Sprint("own-", w.number), func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/wait"}) })
	if o == nil {
		return
	}
	first, second, third := writers[w.random.IntN(5)], writers[w.random.IntN(5)], operator
	w.tolerate(w.delete(first, kind, o.GetName()))
	ctx, _ := w.request(second)
	w.tolerate(w.client(second, kind).Delete(ctx, o.GetName(), metav1.DeleteOptions{}))
	ctx, id := w.request(third)
	var err error
	if now, got := w.client(third, kind).Get(context.Background(), o.GetName(), metav1.GetOptions{}); got == nil && w.random.IntN(2) == 0 {
		now.SetFinalizers(nil)
		_, err = w.client(third, kind).Update(ctx, now, metav1.UpdateOptions{})
	} else {
		_, err = w.client(third, kind).Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
	w.tolerate(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[string(o.GetUID())] = fmt.Sprint("r", id)
}

// cascade creates an owner and dependents, and a user deletes the owner. The garbage collector deletes the dependents after it or
// before it, or orphans them.
func (w *requester) cascade(user string) {
	name := w.unique("owner")
	owner := w.create(user, Deployments, name, nil)
	if owner == nil {
		return
	}
	part := w.create(operator, ConfigMaps, name, ownedBy(owner))
	if part != nil && w.controlled {
		w.create(operator, Widgets, name, ownedBy(part))
	}
	deleter := writers[w.random.IntN(5)]
	if w.controlled {
		how := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
		w.tolerate(w.delete(deleter, Deployments, name, how[w.random.IntN(3)]))
		return
	}
	w.tolerate(w.delete(deleter, Deployments, name))
	if part != nil {
		w.tolerate(w.delete(collector, ConfigMaps, part.GetName()))
	}
}

func ownedBy(owner *unstructured.Unstructured) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		block := true
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(),
			UID: owner.GetUID(), BlockOwnerDeletion: &block}})
	}
}

// removal creates a namespace that a user deletes. The namespace controller then deletes its objects.
func (w *requester) removal(user string) {
	name := w.unique("gone")
	spaces := w.clients[user].Resource(namespacesGVR)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	if _, err := spaces.Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
		w.t.Error(err)
		return
	}
	w.namespace = name
	for _, kind := range []Kind{ConfigMaps, Deployments, Widgets} {
		w.create(user, kind, "part", nil)
	}
	w.tolerate(spaces.Delete(context.Background(), name, metav1.DeleteOptions{}))
}

var namespacesGVR = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// collection is a deletecollection of its own objects.
func (w *requester) collection(user string) {
	var uids []string
	label := fmt.Sprint("of-", w.number)
	for range 3 {
		if o := w.create(user, ConfigMaps, label, func(o *unstructured.Unstructured) {
			o.SetGenerateName(label + "-")
			o.SetName("")
			o.SetLabels(map[string]string{"collection": label})
		}); o != nil {
			uids = append(uids, string(o.GetUID()))
		}
	}
	ctx, id := w.request(user)
	w.tolerate(w.client(user, ConfigMaps).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "collection=" + label}))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bulk[fmt.Sprint("r", id)] = true
	for _, uid := range uids {
		w.deleted[uid] = fmt.Sprint("r", id)
	}
}

// awaitControllers waits until no object is being deleted or has a deleted owner, and all deleted namespaces are gone.
func (r *requesters) awaitControllers() {
	admin := r.clients[writers[0]]
	Await(r.t, "the controllers to be done", func() (bool, error) {
		alive, owners := map[types.UID]bool{}, map[types.UID]bool{}
		for _, kind := range []schema.GroupVersionResource{ConfigMaps.GVR, Deployments.GVR, Widgets.GVR, namespacesGVR} {
			list, err := admin.Resource(kind).List(context.Background(), metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			for _, o := range list.Items {
				if alive[o.GetUID()] = true; o.GetDeletionTimestamp() != nil {
					return false, nil
				}
				for _, owner := range o.GetOwnerReferences() {
					owners[owner.UID] = true
				}
			}
		}
		for owner := range owners {
			if !alive[owner] {
				return false, nil
			}
		}
		return true, nil
	})
}

// act names a controller's action on an object, or on all objects of a resource in a namespace. A controller's requests have no ids
// of the test.
func act(user, verb, resource, namespace, name string) string {
	return strings.Join([]string{user, verb, resource, namespace, name}, " ")
}

// truth returns the request that made a change, and its user. id is empty if the test did not send it. A controller's id is its
// act.
func (r *requesters) truth(l *sinks.Logged) (id, user string) {
	if id = r.requested(l); id != "" {
		return id, r.users[id]
	}
	resource := change.ResourceOf(l.Stream.ID()).ID()
	switch {
	case !r.controlled, l.Op == change.Delete && !l.Inferred && r.obscure(l): // it left the selection, by one of several requests
		return "", ""
	case l.Op == change.Delete && strings.HasPrefix(l.Namespace, "gone-"):
		return act(remover, "deletecollection", resource, l.Namespace, ""), remover
	case l.Op == change.Delete && deleting(l.Before), textAt(l.Before, "metadata ownerReferences") != "" && textAt(l.After, "metadata ownerReferences") == "" && l.After != nil:
		return act(collector, "patch", resource, l.Namespace, l.Name), collector
	case l.Op == change.Delete, deleting(l.After) && !deleting(l.Before):
		return act(collector, "delete", resource, l.Namespace, l.Name), collector
	}
	return "", ""
}

// requested returns the test's request that made a change, or "".
func (r *requesters) requested(l *sinks.Logged) string {
	if id := r.podRequest(l); id != "" {
		return id
	}
	answered := r.answered[l.UID+" "+string(l.ResourceVersion)]
	switch {
	case l.Op == change.Delete && len(answered) == 1 && !l.Inferred: // it left the selection
		return answered[0]
	case l.Op == change.Delete && len(answered) > 1 && !l.Inferred: // by one of several
		return ""
	case l.Op == change.Delete && deleting(l.Before):
		return r.ended[l.UID]
	case l.Op == change.Delete, deleting(l.After) && !deleting(l.Before):
		return r.deleted[l.UID]
	}
	if len(answered) == 1 {
		return answered[0]
	}
	for _, path := range []string{"metadata annotations by", "spec replicas", "status observedGeneration"} {
		was, value := textAt(l.Before, path), textAt(l.After, path)
		if id := "r" + strings.TrimPrefix(value, "r"); value != "" && was != value && r.users[id] != "" { // the first replicas of a Deployment are no id
			if len(answered) == 0 || slices.Contains(answered, id) {
				return id
			}
			if i := slices.IndexFunc(answered, func(later string) bool { return r.again[later] == id }); i >= 0 {
				return answered[i]
			} // otherwise a request has restored an earlier state
		}
	}
	answered = slices.DeleteFunc(slices.Clone(answered), func(id string) bool {
		_, reverted := r.admission.reverted.Load(id)
		return !reverted
	})
	if len(answered) == 1 { // it changed only managedFields, and the others changed nothing
		return answered[0]
	}
	return ""
}

func deleting(object []byte) bool { return textAt(object, "metadata deletionTimestamp") != "" }

// textAt returns the text at a path of an object.
func textAt(object []byte, path string) string {
	value := object
	for name := range strings.FieldsSeq(path) {
		if value == nil {
			return ""
		}
		value = rawjson.Member(value, name)
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	return text
}
