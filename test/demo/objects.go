package main

import "fmt"

// The bodies of the tour's objects. The cluster has no controllers: a deployment makes no pods, and pods do not run.

func configMapBody(data object) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "data": data}
}

func podBody(app string) object {
	return object{"apiVersion": "v1", "kind": "Pod", "spec": podSpec(app)}
}

func deploymentBody(app string, replicas int) object {
	labels := object{"app": app}
	return object{"apiVersion": "apps/v1", "kind": "Deployment", "spec": object{
		"replicas": replicas,
		"selector": object{"matchLabels": labels},
		"template": object{"metadata": object{"labels": labels}, "spec": podSpec(app)},
	}}
}

func podSpec(app string) object {
	return object{"containers": []any{object{"name": app, "image": fmt.Sprintf("registry.example.com/%s:1.0", app)}}}
}

func orderBody(item string) object {
	return object{"apiVersion": "example.com/v1", "kind": "Order", "spec": object{"item": item, "state": "new"}}
}

func phase(name string) object { return object{"status": object{"phase": name}} }

func replicas(n int) object { return object{"spec": object{"replicas": n}} }

func data(key, value string) object { return object{"data": object{key: value}} }

func orderState(state string) object { return object{"spec": object{"state": state}} }
