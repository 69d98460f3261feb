package serve

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// randomAccept returns an Accept header of one to three clauses. YAML and protobuf are left out, since only the real server has them, and
// application/*, which may be any of these there.
func randomAccept(random *rand.Rand) string {
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	var clauses []string
	for range 1 + random.IntN(3) {
		clauses = append(clauses, pick("application/json", "application/json", "application/json", "*/*", "text/html", "application/xml", "none")+
			pick("", "", ";as=Table;v=v1;g=meta.k8s.io", ";as=Table", ";as=Table;v=v1;g=example.com", ";g=meta.k8s.io;v=v1", ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
				";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
				";g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", ";g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList", ";as=None;v=v1;g=meta.k8s.io",
				";charset=utf-8", ";pretty=1")+pick("", "", "", ";q=0.9", ";q=0.5", ";q=0.1", ";q=nonsense"))
	}
	return strings.Join(clauses, pick(",", ", "))
}

// The form of each answer is the real server's, whatever a client accepts. Older clients accept discovery in a version that neither server has.
func (p *past) forms(t *testing.T) {
	random := rand.New(rand.NewPCG(rand.Uint64(), 1))
	kinds := map[string]int{}
	for range 600 {
		path := []string{"/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/api/v1/namespaces/default/configmaps", "/apis/example.com/v1/widgets",
			"/api/v1/namespaces/default/configmaps/c1", "/api/v1/nodes"}[random.IntN(9)]
		accept := randomAccept(random)
		want, got := p.real(path, accept), p.ours(path, accept)
		kind := kindOf(want.body)
		if kinds[kind]++; got.code != want.code || kindOf(got.body) != kind {
			t.Errorf("%s of %s: %d %s, want %d %s", accept, path, got.code, kindOf(got.body), want.code, kind)
		}
	}
	t.Logf("%v", kinds)
}

func kindOf(body []byte) string {
	var o struct{ Kind, APIVersion, Reason string }
	if err := json.Unmarshal(body, &o); err != nil {
		return "no JSON"
	}
	return o.APIVersion + " " + o.Kind + " " + o.Reason
}
