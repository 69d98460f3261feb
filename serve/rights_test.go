package serve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"kubecdc/test/attack"
	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// serving starts exporter serve on the loopback, and returns its process and address.
func (p *past) serving(t *testing.T, settings ...string) (*os.Process, *url.URL) {
	t.Helper()
	c := exec.Command(p.binary, "serve", "--address", "127.0.0.1:0")
	c.Env = slices.Concat(child.Environ(), []string{"KUBECDC_CLUSTER=" + cluster, "KUBECDC_SINK=sqlite", "KUBECDC_CHECKPOINT=sqlite:" + p.file}, settings)
	out := must[io.ReadCloser](t)(c.StderrPipe())
	process := must[*child.Child](t)(child.Start(c))
	t.Cleanup(process.Kill)
	line := must[string](t)(bufio.NewReader(out).ReadString('\n'))
	address, _, _ := strings.Cut(strings.TrimPrefix(line, "kubectl --server "), "/at/")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return c.Process, must[*url.URL](t)(url.Parse(address))
}

// certificate writes a certificate of the loopback. It returns the settings that serve it, and its authority.
func certificate(t *testing.T) (settings []string, authority []byte) {
	dir := t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(dir, "crt"), certificate, 0o600))
	ok(t, os.WriteFile(filepath.Join(dir, "key"), key, 0o600))
	return []string{"KUBECDC_HTTP_TLS_CERT=" + filepath.Join(dir, "crt"), "KUBECDC_HTTP_TLS_KEY=" + filepath.Join(dir, "key")}, certificate
}

// The present cluster decides on rights to the past.
func (p *past) rights(t *testing.T) {
	admin := p.client.RbacV1()
	meta := metav1.ObjectMeta{Name: "past"}
	must[*rbac.Role](t)(admin.Roles("default").Create(t.Context(), &rbac.Role{ObjectMeta: meta, Rules: []rbac.PolicyRule{
		{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"namespaces"}}}}, metav1.CreateOptions{}))
	must[*rbac.RoleBinding](t)(admin.RoleBindings("default").Create(t.Context(), &rbac.RoleBinding{ObjectMeta: meta,
		RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: "past"}, Subjects: []rbac.Subject{{APIGroup: rbac.GroupName, Kind: "User", Name: servers.Reader.Name}}}, metav1.CreateOptions{}))
	settings, authority := certificate(t)
	_, address := p.serving(t, append(settings, "KUBECDC_HTTP_ACCESS=kubernetes", "KUBECONFIG="+p.kube.Kubeconfig)...)
	client := func(token string, user string) kubernetes.Interface {
		return kubernetes.NewForConfigOrDie(&rest.Config{Host: address.String(), BearerToken: token, Impersonate: rest.ImpersonationConfig{UserName: user},
			TLSClientConfig: rest.TLSClientConfig{CAData: authority}})
	}
	list := func(c kubernetes.Interface, namespace string) error {
		_, err := c.CoreV1().ConfigMaps(namespace).List(context.Background(), metav1.ListOptions{})
		return err
	}
	reader, impersonated := client(servers.Reader.Token, ""), client(p.kube.Config.BearerToken, servers.Reader.Name)
	servers.Await(t, "RBAC to learn of the binding, by a watch", func() (bool, error) { return list(reader, "default") == nil, nil })
	ok(t, list(impersonated, "default"))
	_, getPod := reader.CoreV1().Pods("default").Get(t.Context(), "c1", metav1.GetOptions{})
	_, getNamespace := reader.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
	_, otherNamespace := reader.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	_, discovered := reader.Discovery().ServerVersion()
	_, watch := reader.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	for what, refused := range map[string]error{"all namespaces": list(reader, ""), "another namespace": list(reader, "kube-system"), "another resource": getPod,
		"another verb": watch, "all namespaces as another": list(impersonated, ""), "the namespace of others": otherNamespace,
		"impersonation": list(client(servers.Reader.Token, "someone"), "default")} {
		if !apierrors.IsForbidden(refused) {
			t.Errorf("%s: %v", what, refused)
		}
	}
	if getNamespace != nil || discovered != nil {
		t.Errorf("what is allowed: %v, %v", getNamespace, discovered)
	}
	if err := list(client("wrong", ""), "default"); !apierrors.IsUnauthorized(err) {
		t.Errorf("a wrong token: %v", err)
	}
	for what, c := range map[string]kubernetes.Interface{"reader": reader, "impersonated": impersonated} {
		if got, want := reviewed(t, c), "list configmaps default"; got != want {
			t.Errorf("a review says that the %s may %s, want %s", what, got, want)
		}
	}
	whoAndWhat(t, reader, must[kubernetes.Interface](t)(kubernetes.NewForConfig(p.kube.UserConfig(p.kube.Address, servers.Reader.Token))))
	self := must[*authentication.SelfSubjectReview](t)(impersonated.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authentication.SelfSubjectReview{}, metav1.CreateOptions{}))
	if user := self.Status.UserInfo; user.Username != servers.Reader.Name || !slices.Equal(user.Groups, []string{"system:authenticated"}) {
		t.Errorf("who is impersonated: %+v", user)
	}
	must[*core.ConfigMap](t)(p.client.CoreV1().ConfigMaps("default").Create(t.Context(), &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-default"}}, metav1.CreateOptions{}))
	servers.Await(t, "the log to have a ConfigMap", func() (bool, error) {
		found, err := reader.CoreV1().ConfigMaps("default").List(context.Background(), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(found.Items, func(c core.ConfigMap) bool { return c.Name == "of-default" }), nil
	})
	agentsRights(t, address, authority)
	pagesRights(t, address, authority)
	p.open(t)
}

// agentsRights asks as an agent does, by single requests. It gets what the API lets its user read.
func agentsRights(t *testing.T, address *url.URL, authority []byte) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	for _, test := range []struct {
		token, arguments string
		code             int
		text             string
	}{
		{servers.Reader.Token, `{"types":["cm"],"namespace":"default","since":"start"}`, 200, `"resource":"configmaps"`},
		{servers.Reader.Token, `{"types":["cm"]}`, 200, "you may not read configmaps there"},
		{servers.Reader.Token, `{"namespace":"default","since":"start"}`, 200, "you may not read"},
		{servers.Reader.Token, `{"namespace":"kube-system"}`, 200, "you may read nothing there"},
		{"wrong", `{}`, 401, "not known"},
	} {
		r := must[*http.Request](t)(http.NewRequest(http.MethodPost, address.String()+"/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"what_changed","arguments":`+test.arguments+`}}`)))
		r.Header = http.Header{"Authorization": {"Bearer " + test.token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		answer := must[*http.Response](t)(client.Do(r))
		body := string(must[[]byte](t)(io.ReadAll(answer.Body)))
		answer.Body.Close()
		if answer.StatusCode != test.code || !strings.Contains(body, test.text) || strings.Contains(body, "of-default") && !strings.Contains(test.arguments, "default") {
			t.Errorf("%s: %s %.600s", test.arguments, answer.Status, body)
		}
	}
}

// pagesRights asks as a browser does.
func pagesRights(t *testing.T, address *url.URL, authority []byte) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	for _, test := range []struct {
		token, query string
		code         int
		text         string
	}{
		{servers.Reader.Token, "type=cm&namespace=default&since=start", 200, "cm/of-default"},
		{servers.Reader.Token, "type=cm&name=kube-root-ca.crt&namespace=default&since=start", 403, "you may not read configmaps there"}, // he may only list
		{servers.Reader.Token, "at=now&type=cm&namespace=default", 200, ">of-default</a>"},
		{servers.Reader.Token, "namespace=default&since=start", 200, "you may not read"},
		{servers.Reader.Token, "at=now&namespace=default", 200, "configmaps"},
		{servers.Reader.Token, "", 403, "you may read nothing there"},
		{servers.Reader.Token, "from=1m&namespace=kube-system", 403, "you may read nothing there"},
		{servers.Reader.Token, "type=cm", 403, "you may not read configmaps there"},
		{"wrong", "", 401, "known"},
	} {
		r := must[*http.Request](t)(http.NewRequest(http.MethodGet, address.String()+"/?"+test.query, nil))
		r.SetBasicAuth("anybody", test.token)
		r.Header.Set("Accept", "text/html")
		answer := must[*http.Response](t)(client.Do(r))
		body := string(must[[]byte](t)(io.ReadAll(answer.Body)))
		answer.Body.Close()
		mayName := strings.Contains(test.query, "namespace=default")
		if answer.StatusCode != test.code || !strings.Contains(body, test.text) || strings.Contains(body, "of-default") && !mayName ||
			strings.Contains(body, "kube-system/") {
			t.Errorf("%s: %s, want %d and %s: %.3000s", test.query, answer.Status, test.code, test.text, body[strings.Index(body, "<body>")+1:])
		}
	}
}

// whoAndWhat asks the log and the API server for the same user's reviews, which are equal, except that the log's have rules of reading alone.
func whoAndWhat(t *testing.T, past, present kubernetes.Interface) {
	t.Helper()
	var who []authentication.UserInfo
	var rules []authorization.SubjectRulesReviewStatus
	for _, c := range []kubernetes.Interface{past, present} {
		self := must[*authentication.SelfSubjectReview](t)(c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authentication.SelfSubjectReview{}, metav1.CreateOptions{}))
		lied := authorization.SubjectRulesReviewStatus{ResourceRules: []authorization.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}}
		all := must[*authorization.SelfSubjectRulesReview](t)(c.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
			&authorization.SelfSubjectRulesReview{Spec: authorization.SelfSubjectRulesReviewSpec{Namespace: "default"}, Status: lied}, metav1.CreateOptions{}))
		who, rules = append(who, self.Status.UserInfo), append(rules, all.Status)
	}
	if !reflect.DeepEqual(who[0], who[1]) {
		t.Errorf("a client of the log is %+v, and at the API server %+v", who[0], who[1])
	}
	want := []authorization.ResourceRule{}
	for _, r := range rules[1].ResourceRules {
		if r.Verbs = retained(r.Verbs, verbs); len(r.Verbs) > 0 {
			want = append(want, r)
		}
	}
	if !reflect.DeepEqual(rules[0].ResourceRules, want) || len(want) < 2 || len(rules[0].NonResourceRules) == 0 || rules[0].Incomplete {
		t.Errorf("a client of the log may\n%+v, and at the API server\n%+v", rules[0], rules[1])
	}
	local := func(c kubernetes.Interface) error {
		_, err := c.AuthorizationV1().LocalSubjectAccessReviews("default").Create(t.Context(), &authorization.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
			Spec: authorization.SubjectAccessReviewSpec{User: "somebody", ResourceAttributes: &authorization.ResourceAttributes{Verb: "list", Resource: "configmaps", Namespace: "default"}}}, metav1.CreateOptions{})
		return err
	}
	if a, b := local(past), local(present); !apierrors.IsForbidden(a) || a.Error() != b.Error() {
		t.Errorf("a review of another user: %v, and at the API server: %v", a, b)
	}
}

// reviewed returns what a client may do, by reviews as k9s asks for them.
func reviewed(t *testing.T, c kubernetes.Interface) string {
	var allowed []string
	for _, asked := range []authorization.ResourceAttributes{{Verb: "list", Resource: "configmaps", Namespace: "default"}, {Verb: "list", Resource: "configmaps"},
		{Verb: "get", Resource: "pods", Namespace: "default"}, {Verb: "delete", Resource: "configmaps", Namespace: "default"},
		{Verb: "get", Resource: "pods", Subresource: "log", Namespace: "default"}} {
		review := must[*authorization.SelfSubjectAccessReview](t)(c.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
			&authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &asked}}, metav1.CreateOptions{}))
		if review.Status.Allowed {
			allowed = append(allowed, strings.TrimSpace(asked.Verb+" "+asked.Resource+" "+asked.Namespace))
		}
	}
	return strings.Join(allowed, ", ")
}

// open tests a server without a login. Nobody can impersonate, a page in a browser gets nothing, and other machines can't reach it.
func (p *past) open(t *testing.T) {
	_, address := p.serving(t)
	for name, header := range map[string]http.Header{"Host": {"Host": {"evil.example"}}, "Impersonate-User": {"Impersonate-User": {"bob"}}, "": {}} {
		r := must[*http.Request](t)(http.NewRequest(http.MethodGet, address.String()+"/api/v1/namespaces", nil))
		r.Header, r.Host = header, header.Get("Host")
		answer := must[*http.Response](t)(http.DefaultClient.Do(r))
		answer.Body.Close()
		if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[name == ""]; answer.StatusCode != want {
			t.Errorf("with a header %s: %s", name, answer.Status)
		}
	}
	for _, form := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		all := kubernetes.NewForConfigOrDie(&rest.Config{Host: address.String(), ContentConfig: rest.ContentConfig{ContentType: form}})
		if got, want := reviewed(t, all), "list configmaps default, list configmaps, get pods default"; got != want {
			t.Errorf("a review as %s says that everybody may %s, want %s", form, got, want)
		}
	}
	c := exec.Command(p.binary, "serve", "--address", "0.0.0.0:0")
	c.Env = slices.Concat(child.Environ(), []string{"KUBECDC_CLUSTER=" + cluster, "KUBECDC_SINK=sqlite", "KUBECDC_CHECKPOINT=sqlite:" + p.file})
	if out, err := c.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("KUBECDC_HTTP_ACCESS")) {
		t.Errorf("other machines may ask without a login: %v\n%s", err, out)
	}
}

// attacks are the bytes that a client without a token sends before it falls silent.
var attacks = map[string]string{
	"nothing":                   "",
	"half a request":            "GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n",
	"headers of 60 KB":          "GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-Filler: "+strings.Repeat("x", 1000)+"\r\n", 60),
	"a body that never comes":   "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 250000\r\n\r\n",
	"a list's body":             "GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nContent-Length: 250000000\r\n\r\n",
	"a body in chunks":          "GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
	"a body after a 100":        "POST /api/v1/pods HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 250000\r\n\r\n",
	"a watch that gets a 401":   "GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n",
	"a request that gets an ok": "GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n",
	"a review":                  "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{",
	"half a request after one":  "GET /version HTTP/1.1\r\nHost: x\r\n\r\nGET /version HTTP/1.1\r\nHost",
	"a moment that gets a 401":  "GET /at/1000h/api/v1/pods HTTP/1.1\r\nHost: x\r\n\r\n",
}

func TestSlowTheServerUnderAttack(t *testing.T) {
	servers.Slow(t)
	p := newPast(t)
	file := filepath.Join(t.TempDir(), "token")
	ok(t, os.WriteFile(file, []byte("a-token-of-some-length"), 0o600))
	settings, _ := certificate(t)
	for scheme, tls := range map[string][]string{"http": nil, "https": settings} {
		t.Run(scheme, func(t *testing.T) {
			process, address := p.serving(t, append(tls, "KUBECDC_HTTP_ACCESS=token", "KUBECDC_HTTP_TOKEN_FILE="+file)...)
			v := &attack.Victim{Process: process, Scheme: scheme, Address: address.Host, Path: "/api/v1/namespaces", Token: "a-token-of-some-length",
				Want: "kube-system", Most: 200e6}
			v.Attack(t, attacks)
		})
	}
}
