package change_test

import (
	"fmt"
	"time"

	"kubecdc/change"
)

var deployments = change.NewStream(change.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}, "", "", "")

// The key and the value of a record. The images are the API server's own bytes.
func ExampleEnvelope() {
	e := change.Envelope{Cluster: "prod", Prefix: "k8s", Version: "0.1.0"}
	c := change.Change{
		Stream: deployments, Op: change.Update, Namespace: "shop", Name: "web", UID: "e8f6", ResourceVersion: "12",
		Before: []byte(`{"spec":{"replicas":1}}`), After: []byte(`{"spec":{"replicas":2}}`), Time: time.UnixMilli(1700000000000),
		Provenance: change.Provenance{Time: time.UnixMilli(1699999999000), Source: change.FromManagedFields,
			Managers: []byte("kubectl-edit"), Fields: []byte("spec.replicas")},
	}
	fmt.Println(change.Topic(e.Prefix, c.Stream.Resource))
	fmt.Printf("%s\n", e.AppendKey(nil, &c))
	fmt.Printf("%s\n", e.AppendValue(nil, &c))
	// Output:
	// k8s.deployments.apps
	// {"cluster":"prod","namespace":"shop","name":"web"}
	// {"before":{"spec":{"replicas":1}},"after":{"spec":{"replicas":2}},"op":"u","ts_ms":1700000000000,"ts_us":1700000000000000,"ts_ns":1700000000000000000,"source":{"version":"0.1.0","connector":"kubernetes","name":"k8s","ts_ms":1699999999000,"ts_us":1699999999000000,"ts_ns":1699999999000000000,"ts_from":"managedFields","snapshot":"false","db":"prod","schema":"shop","table":"deployments","group":"apps","apiVersion":"apps/v1","kind":"Deployment","uid":"e8f6","resourceVersion":"12","sequence":"[\"12\",\"0\"]","stream":"deployments.apps","managers":"kubectl-edit","fieldsChanged":"spec.replicas"}}
}

// A stub replaces an image that is too large for its topic.
func ExampleStub() {
	stub, err := change.Stub([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"7"},"data":{"large":"…"}}`))
	fmt.Println(string(stub), err)
	// Output:
	// {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"7","annotations":{"kubecdc/dead-letter":"136"}}} <nil>
}

func ExampleParseStream() {
	s := change.ParseStream("deployments.apps@shop?labels=app=web&fields=metadata.name=a")
	fmt.Println(s.Resource.Plural, s.Resource.Group, s.Namespace, s.LabelSelector, s.FieldSelector)
	// Output:
	// deployments apps shop app=web metadata.name=a
}

func ExampleSplitKey() {
	namespace, name := change.SplitKey(change.ObjectKey("shop", "web"))
	fmt.Println(namespace, name)
	_, name = change.SplitKey(change.ObjectKey("", "node-1"))
	fmt.Println(name)
	// Output:
	// shop web
	// node-1
}

// A resourceVersion is a number of any length.
func ExampleResourceVersion_Compare() {
	v := change.ResourceVersion("9")
	fmt.Println(v.Compare("10"), v.Compare("9"), v.Compare(""))
	// Output:
	// -1 0 1
}

// What "echo -n 'shop/web e8f6 12' | sha256sum" begins with is the digest of a set of one object.
func ExampleDigest() {
	var d change.Digest
	d.Add("shop/web", "e8f6", "12")
	fmt.Println(d)
	var later change.Digest
	later.Add("node-1", "77aa", "3")
	later.Add("shop/web", "e8f6", "13")
	fmt.Println(later, later.Objects)
	// Output:
	// 9c200be43dc8cf2d59252eb13eb46cff
	// d60d8fad2eddd7d6e7fb31f876a93683 2
}
