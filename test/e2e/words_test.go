package e2e

import (
	"context"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// All commands accept objects in kubectl's words, and without -n they use all namespaces. The meaning of names does not depend on
// the log.
func TestKubectlsWords(t *testing.T) {
	t.Parallel()
	w := NewFileWorld(t)
	InstallWidgets(t, w.Kube.Config)
	kinds := []Kind{ConfigMaps, Deployments, Widgets}
	w.Env["KUBECDC_RESOURCES"] = Resources(kinds)
	w.Env["KUBECDC_BEFORE"] = "full"
	StartExporter(t, "of words", w.Env).AwaitReady(t)
	writeHistory(t, w)
	w.AwaitComplete(t, w.Writer(t, kinds), kinds)
	for _, s := range []spoken{
		{"history cm app -n shop", 0, `.*Z  created  resourceVersion \d+  by story\n.*Z  updated  resourceVersion \d+.*\n` +
			`  ~ data\.conf:\n        …\n        b\n      - c\n      \+ C\n        d\n        …\n.*Z  deleted  resourceVersion \d+\n  with its owner Deployment web\n`},
		{"history configmap/app -n shop -o name", 0, `(configmaps/app\n){3}`},
		{"history cm/app", 0, `.*configmaps default/app  created  .*\n.*configmaps shop/app  created  .*\n(.*\n)*.*configmaps shop/app  deleted  .*\n  with its .*\n`},
		// Several streams have no order relative to each other.
		{"history cm,deploy web app -A -o name", 0, `((configmaps/app|deployments.apps/web)\n){7}`},
		{"history -A -l app=web --since 2h -o name", 0, `((configmaps/app|deployments.apps/web)\n){6}`},
		{"history -l app=nobody", 0, ``},
		{"history deployment.v1.apps/web -o jsonpath={.op}", 0, `c\nu\nd\n`},
		{"history deploy/web --color always", 0, `\x1b\[1m.*created.*(.*\n)*.*~ spec\.template\.spec\.containers\[c\]\.image:.*\n(.*\n)*`},
		{"history deploy/web --since 2020-01-01 -o wide", 0, `LOGGED .*\n(.*deployments.apps .*shop/web .*\n){3}`},
		{"history deploy/web --where op=='d' -o table", 0, `LOGGED .*\n.* deleted .*\n`},
		{"history cm nobody -n shop", 1, `no such change of configmaps/nobody in namespace "shop"`},
		{"history cm/app deploy", 2, `TYPE NAME NAME`},
		{"history po/app", 2, `the log has no changes of "po": .*it has configmaps, deployments.apps, widgets.example.com`},
		{"history wdg", 2, `the log has no changes of "wdg"`}, // without an API server
		{"state --at now cm/app", 0, `NAMESPACE +NAME .*\ndefault +app .*\n`},
		{"state --at now cm,deploy -n default -o name", 0, `(configmaps/.*\n)+(deployments.apps/.*\n)+`},
		{"state --at now cm app -o jsonpath={.metadata.namespace}", 0, `default\n`},
		{"state --at now cm -l app=db -o jsonpath={.items[*].metadata.name}", 0, `app\n`},
		{"state --at now widget -o wide", 0, `NAMESPACE +NAME +RESOURCEVERSION +LOGGED +UID\n(.*\n)*`},
		{"state --at now cm/nobody", 1, `configmaps/nobody did not exist at the end of the log`},
		{"diff --from 7d cm/app --incomplete -o name", 1, `configmaps/app\n`},
		{"diff --from 7d -l app=db --incomplete", 1, `\+ configmaps default/app  \d+\n`},
		{"tail -n 2 --follow=false -o name cm,deploy -n default", 0, `((configmaps|deployments.apps)/mark.*\n){2}`},
		{"tail -n 1 --follow=false deploy/web -o jsonpath={.op},{.name}", 0, `d,web\n`},
		{"tail --since 2h --follow=false --incomplete -l app=db", 0, `LOGGED .*\n.*created .*default/app\n`},
		{"tail -A -n shop", 2, `-A is all namespaces`},
		{"tail cm deployments.apps", 2, `write cm,deployments.apps for both, or cm/deployments.apps`},
		{"replay cm/app -n shop --from start --to-stdout --execute", 0, `(.*"shop".*\n){4}`},
		{"replay cm,deploy -l app=web --from 7d --incomplete --to-stdout --execute", 0, `(.*\n){8}`},
	} {
		stdout, stderr, code := offline(t, w.Env, strings.Fields(s.line)...)
		printed := strings.ReplaceAll(stdout, seenLate, "")
		if s.code > 0 && !strings.HasPrefix(s.line, "diff") {
			printed = ".*" + stderr + ".*"
		}
		pattern := "(?s)^" + strings.ReplaceAll(s.want, ".*", "[^\n]*") + "$"
		if s.code > 0 && !strings.HasPrefix(s.line, "diff") {
			pattern = s.want
		}
		if code != s.code || !regexp.MustCompile(pattern).MatchString(printed) {
			t.Errorf("exporter %s: exit code %d\n%.2000s\n%.2000s", s.line, code, stdout, stderr)
		}
	}
	askInWords(t, w)
}

// seenLate is the remark on changes that a busy exporter has read late.
const seenLate = "  (seen then; it may have happened earlier)"

// spoken is a command line, its exit code, and patterns of its output. want matches each line of stdout, or stderr.
type spoken struct {
	line string
	code int
	want string // matches stdout, or stderr if the code is an error's
}

// askInWords names streams, with an API server.
func askInWords(t *testing.T, w *World) {
	t.Helper()
	for _, s := range []spoken{
		{"history wdg -o name", 0, `widgets.example.com/mark`},
		{"pause cm,wdg", 0, `configmaps: paused(.*\n)*.*widgets.example.com: paused`},
		{"resume wdg configmap", 0, `widgets.example.com: `},
		{"snapshot deploy,wdg -n shop", 0, `deployments.apps: .*\n(.*\n)*.*widgets.example.com: `},
		{"verify configmap,wdg", 0, `configmaps `},
		{"verify deploy -o name", 0, ``},
		{"pause cm -n shop", 2, `cm has no stream of namespace shop alone`},
		{"pause cm/app", 2, `works on resources, but \["cm/app"\] names an object`},
		{"snapshot cm/app", 2, `works on resources`},
		{"verify cm/app", 2, `verify works on resources`},
		{"verify cm -n shop", 2, `has a stream of namespace shop alone`},
		{"schema wdg --as flink", 0, `widgets`},
	} {
		if code, out := command(t, w.Env, strings.Fields(s.line)...); code != s.code || !regexp.MustCompile(s.want).MatchString(out) {
			t.Errorf("exporter %s: exit code %d\n%s", s.line, code, out)
		}
	}
}

// writeHistory creates objects of one name in two namespaces. One of them is deleted with its owner. No garbage collector runs, so
// the test does its work.
func writeHistory(t *testing.T, w *World) {
	t.Helper()
	ctx, options := context.Background(), metav1.CreateOptions{FieldManager: "story"}
	client, err := kubernetes.NewForConfig(w.Kube.Config)
	must(t, err)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, options)
	must(t, err)
	config := func(namespace, app string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: namespace, Labels: map[string]string{"app": app}},
			Data: map[string]string{"conf": "a\nb\nc\nd\ne\n"}}
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(ctx, config("default", "db"), options)
	must(t, err)
	web := sample(Deployments, "web", 1, 0)
	web.SetLabels(map[string]string{"app": "web"})
	deployments := dynamic.NewForConfigOrDie(w.Kube.Config).Resource(Deployments.GVR).Namespace("shop")
	web, err = deployments.Create(ctx, web, options)
	must(t, err)
	app := config("shop", "web")
	app.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: web.GetUID()}}
	configs := client.CoreV1().ConfigMaps("shop")
	_, err = configs.Create(ctx, app, options)
	must(t, err)
	patch := func(text string) []byte { return []byte(text) }
	_, err = configs.Patch(ctx, "app", types.MergePatchType, patch(`{"data":{"conf":"a\nb\nC\nd\ne\n"}}`), metav1.PatchOptions{FieldManager: "story"})
	must(t, err)
	_, err = deployments.Patch(ctx, "web", types.JSONPatchType,
		patch(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example.com/i:2"}]`), metav1.PatchOptions{})
	must(t, err)
	must(t, deployments.Delete(ctx, "web", metav1.DeleteOptions{}))
	must(t, configs.Delete(ctx, "app", metav1.DeleteOptions{}))
}
