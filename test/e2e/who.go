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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

const (
	collector = "system:serviceaccount:kube-system:generic-garbage-collector"
	operator  = "system:serviceaccount:shop:operator"
)

// writers are five people and two controllers.
var writers = []string{"alice", "bob", "carol", "dave", "erin", operator, collector}

func writerUsers() (users []servers.User) {
	for _, name := range writers {
		users = append(users, servers.User{Name: name, Token: "token-of-" + strings.ReplaceAll(name, ":", "-"), Groups: []string{"system:masters"}})
	}
	return append(users, servers.User{Name: "mallory", Token: "token-of-mallory"})
}

// requesters writes as several users at once. Each request has an audit id of its own, and what it writes has the id in it: as an
// annotation, or where a subresource takes none, as a number. So a change tells which request it was.
type requesters struct {
	t       *testing.T
	clients map[string]dynamic.Interface

	mu      sync.Mutex
	made    int
	by      map[string]string // the user of each request, by its id
	again   map[string]string // the request that wrote the same once more, by the id of the first one
	deleted map[string]string // the request that began an object's deletion, by uid
	ended   map[string]string // the request that ended it, where it is another one
}

type auditID struct{}

// identified gives requests the audit id of their context.
type identified struct{ next http.RoundTripper }

func (i identified) RoundTrip(r *http.Request) (*http.Response, error) {
	if id, ok := r.Context().Value(auditID{}).(string); ok {
		r = r.Clone(r.Context())
		r.Header.Set("Audit-ID", id)
	}
	return i.next.RoundTrip(r)
}

func newRequesters(t *testing.T, kube *servers.Kubernetes) *requesters {
	r := &requesters{t: t, clients: map[string]dynamic.Interface{}, by: map[string]string{}, again: map[string]string{}, deleted: map[string]string{}, ended: map[string]string{}}
	add := func(name, user, as string) {
		config := kube.UserConfig(kube.Address, "token-of-"+strings.ReplaceAll(user, ":", "-"))
		config.UserAgent, config.Impersonate.UserName = "writer/1", as
		if as != "" {
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

// request begins a request of a user: its context, and its number, which is also its audit id.
func (r *requesters) request(user string) (context.Context, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	r.by[fmt.Sprint("r", r.made)] = user
	return context.WithValue(context.Background(), auditID{}, fmt.Sprint("r", r.made)), r.made
}

func (r *requesters) on(user string, kind Kind) dynamic.ResourceInterface {
	return r.clients[user].Resource(kind.GVR).Namespace("default")
}

// tolerate fails the test unless the error is one that the writers cause each other.
func (r *requesters) tolerate(err error) {
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		r.t.Error(err)
	}
}

// run makes about n writes.
func (r *requesters) run(seed uint64, n int) {
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			w := &requester{r, rand.New(rand.NewPCG(seed, uint64(i))), i}
			for range n / 6 {
				w.one()
			}
		})
	}
	all.Wait()
}

// requester is one of several that write at once.
type requester struct {
	*requesters
	random *rand.Rand
	number int
}

// one makes a random write, or a few that belong together.
func (w *requester) one() {
	user := append(slices.Clone(writers[:6]), "erin as root")[w.random.IntN(7)]
	kind := []Kind{ConfigMaps, Deployments, Widgets}[w.random.IntN(3)]
	name := fmt.Sprint("shared-", w.random.IntN(6))
	switch at := w.random.IntN(100); {
	case at < 8:
		w.create(user, kind, name, nil)
	case at < 10:
		w.tolerate(w.delete(user, kind, name))
	case at < 35:
		w.patch(user, kind, name, `{"metadata":{"annotations":{"by":"r%d"}}}`)
	case at < 50:
		w.put(user, kind, name, false)
	case at < 56:
		w.put(user, kind, name, true)
	case at < 64:
		w.patch(user, kind, name, `{"metadata":{"labels":{"fixed":"yes"}}}`)
	case at < 78:
		w.apply(user, kind, name)
	case at < 83:
		w.patch(user, Deployments, name, `{"spec":{"replicas":%d}}`, "scale")
	case at < 88:
		w.patch(user, Deployments, name, `{"status":{"observedGeneration":%d}}`, "status")
	case at < 90:
		ctx, id := w.request(user)
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"by":"r%d"}}}`, id)
		_, err := w.on(user, kind).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{"All"}})
		w.tolerate(err)
	case at < 92:
		ctx, _ := w.request("mallory")
		if err := w.on("mallory", kind).Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			w.t.Errorf("mallory may delete: %v", err)
		}
	case at < 96:
		w.finalized(user, kind)
	case w.random.IntN(10) > 0:
		w.cascade(user)
	default:
		w.collection(user)
	}
}

// create makes an object that has the request's id; the error is what it is refused for.
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
	made, err := w.on(user, kind).Create(ctx, o, metav1.CreateOptions{})
	w.tolerate(err)
	return made
}

func (w *requester) patch(user string, kind Kind, name, patch string, subresource ...string) {
	ctx, id := w.request(user)
	if strings.Contains(patch, "%d") {
		patch = fmt.Sprintf(patch, id)
	}
	_, err := w.on(user, kind).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	w.tolerate(err)
}

// put reads an object and writes it, changed or as it is; half of the writes insist on the version.
func (w *requester) put(user string, kind Kind, name string, asItIs bool) {
	ctx, id := w.request(user)
	o, err := w.on(user, kind).Get(context.Background(), name, metav1.GetOptions{})
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
	_, err = w.on(user, kind).Update(ctx, o, metav1.UpdateOptions{})
	w.tolerate(err)
}

// apply applies an object, and once in three times applies it again, which mostly changes nothing.
func (w *requester) apply(user string, kind Kind, name string) {
	ctx, id := w.request(user)
	o := sample(kind, name, 0, 0)
	o.SetAnnotations(map[string]string{"by": fmt.Sprint("r", id)})
	o.SetLabels(map[string]string{"fixed": "yes"})
	unstructured.RemoveNestedField(o.Object, "spec", "replicas") // it is not the applier's
	options := metav1.ApplyOptions{FieldManager: "applier-" + strings.ReplaceAll(user, " ", "-"), Force: true}
	_, err := w.on(user, kind).Apply(ctx, name, o, options)
	w.tolerate(err)
	if w.random.IntN(3) == 0 {
		ctx, again := w.request(user)
		w.mu.Lock()
		w.again[fmt.Sprint("r", id)] = fmt.Sprint("r", again)
		w.mu.Unlock()
		_, err := w.on(user, kind).Apply(ctx, name, o, options)
		w.tolerate(err)
	}
}

// delete deletes an object that nobody else deletes with success.
func (w *requester) delete(user string, kind Kind, name string) error {
	ctx, id := w.request(user)
	uid, err := w.deleteNow(ctx, user, kind, name)
	if err == nil {
		w.mu.Lock()
		w.deleted[uid] = fmt.Sprint("r", id)
		w.mu.Unlock()
	}
	return err
}

// deleteNow returns the uid of what was deleted.
func (w *requester) deleteNow(ctx context.Context, user string, kind Kind, name string) (string, error) {
	o, err := w.on(user, kind).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	uid := o.GetUID()
	return string(uid), w.on(user, kind).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
}

// finalized is an object's life with a finalizer: deleted twice, by two users, and ended by a third one.
func (w *requester) finalized(user string, kind Kind) {
	o := w.create(user, kind, fmt.Sprint("own-", w.number), func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/wait"}) })
	if o == nil {
		return
	}
	first, second, third := writers[w.random.IntN(5)], writers[w.random.IntN(5)], operator
	w.tolerate(w.delete(first, kind, o.GetName()))
	ctx, _ := w.request(second)
	w.tolerate(w.on(second, kind).Delete(ctx, o.GetName(), metav1.DeleteOptions{}))
	ctx, id := w.request(third)
	_, err := w.on(third, kind).Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.tolerate(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[string(o.GetUID())] = fmt.Sprint("r", id)
}

// cascade is an owner that a user deletes, whose dependent the garbage collector deletes then.
func (w *requester) cascade(user string) {
	name := fmt.Sprint("owner-", w.number)
	owner := w.create(user, Deployments, name, nil)
	if owner == nil {
		return
	}
	part := w.create(operator, ConfigMaps, name, func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: name, UID: owner.GetUID()}})
	})
	deleter := writers[w.random.IntN(5)]
	w.tolerate(w.delete(deleter, Deployments, name))
	if part != nil {
		w.tolerate(w.delete(collector, ConfigMaps, part.GetName()))
	}
}

// collection is a deletecollection of objects of its own.
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
	w.tolerate(w.on(user, ConfigMaps).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "collection=" + label}))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range uids {
		w.deleted[uid] = fmt.Sprint("r", id)
	}
}

// truth is the request that made a change; empty: none of the test's.
func (r *requesters) truth(l *sinks.Logged) string {
	switch {
	case l.Op == change.Delete && r.ended[l.UID] != "":
		return r.ended[l.UID]
	case l.Op == change.Delete, deleting(l.After) && !deleting(l.Before):
		return r.deleted[l.UID]
	}
	for _, path := range []string{"metadata annotations by", "spec replicas", "status observedGeneration"} {
		was, is := at(l.Before, path), at(l.After, path)
		if is != "" && was != is {
			return "r" + strings.TrimPrefix(is, "r")
		}
	}
	return ""
}

func deleting(object []byte) bool { return at(object, "metadata deletionTimestamp") != "" }

// at is the text of what lies at a path.
func at(object []byte, path string) string {
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
