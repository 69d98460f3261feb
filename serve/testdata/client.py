# What Python's client reads: typed, dynamic and watch. It prints the same for a log as for its API server.
from kubernetes import client, config, dynamic, watch

config.load_kube_config()
core, apps, custom = client.CoreV1Api(), client.AppsV1Api(), client.CustomObjectsApi()


def show(what, items):
    print(what, *sorted(items))


def names(items):
    return [f"{o.metadata.namespace}/{o.metadata.name}" for o in items]


client.VersionApi().get_code()
show("groups", [g.name for g in client.ApisApi().get_api_versions().groups if g.name in ("apps", "example.com", "batch")])
show("versions", client.CoreApi().get_api_versions().versions)
show("resources", [r.name for r in core.get_api_resources().resources if r.name in ("pods", "configmaps", "pods/status")])
show("pods", names(core.list_pod_for_all_namespaces().items))
show("nodes", names(core.list_node().items))
show("namespace", names([core.read_namespace("default"), core.read_namespace_status("default")]))
page, pages = core.list_namespaced_pod("default", limit=2), []
while True:
    pages += names(page.items)
    if not page.metadata._continue:
        break
    page = core.list_namespaced_pod("default", limit=2, _continue=page.metadata._continue)
show("pages", pages)
show("selected", names(core.list_namespaced_config_map("default", label_selector="app=a").items))
show("field", names(core.list_namespaced_pod("default", field_selector="status.phase=Running").items))
show("pod", [core.read_namespaced_pod("c3", "default").status.phase])
show("scale", [str(apps.read_namespaced_deployment_scale("c3", "default").status.selector)])
show("status", names([apps.read_namespaced_deployment_status("c3", "default")]))
show("deployments", names(apps.list_deployment_for_all_namespaces().items))
show("events", names(client.EventsV1Api().list_event_for_all_namespaces().items))
show("widgets", [o["metadata"]["name"] for o in custom.list_cluster_custom_object("example.com", "v1", "widgets")["items"]])
show("widget", [str(custom.get_namespaced_custom_object("example.com", "v1", "default", "widgets", "c3")["spec"])])
show("scale", [str(custom.get_namespaced_custom_object_scale("example.com", "v1", "default", "widgets", "c3")["spec"])])
try:
    core.read_namespaced_config_map("none", "default")
except client.ApiException as e:
    show("none", [str(e.status), e.reason])
for stream in (core.list_namespaced_config_map, core.list_namespaced_pod):
    show("watch", [f"{e['type']} {e['object'].metadata.name}" for e in watch.Watch().stream(stream, "default", timeout_seconds=1)])
api = dynamic.DynamicClient(client.ApiClient())
show("search", {f"{r.group_version} {r.kind}" for r in api.resources.search(kind="Deployment")})
show("dynamic", [o.metadata.name for o in api.resources.get(api_version="example.com/v1", kind="Widget").get().items])
show("dynamic", [api.resources.get(api_version="v1", kind="Pod").get(name="c3", namespace="default").status.phase])
show("dynamic", [f"{e['type']} {e['object'].metadata.name}" for e in api.resources.get(api_version="v1", kind="ConfigMap").watch(namespace="default", timeout=1)])
