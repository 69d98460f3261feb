// What Node's client reads: lists, objects, custom objects and a watch. It prints the same for a log as for its API server.
import * as k8s from '@kubernetes/client-node'

const config = new k8s.KubeConfig()
config.loadFromDefault()
const core = config.makeApiClient(k8s.CoreV1Api), apps = config.makeApiClient(k8s.AppsV1Api), custom = config.makeApiClient(k8s.CustomObjectsApi)
const show = (what, names) => console.log(what, ...names.sort())
const names = list => list.items.map(o => `${o.metadata.namespace}/${o.metadata.name}`)

show('pods', names(await core.listPodForAllNamespaces()))
show('configmaps', names(await core.listNamespacedConfigMap({ namespace: 'default', labelSelector: 'app=a' })))
show('pod', [(await core.readNamespacedPod({ name: 'c3', namespace: 'default' })).status.phase])
show('deployments', names(await apps.listDeploymentForAllNamespaces({ limit: 2 })))
show('widgets', names(await custom.listClusterCustomObject({ group: 'example.com', version: 'v1', plural: 'widgets' })))
const seen = await new Promise((done, failed) => {
  const events = []
  new k8s.Watch(config).watch('/api/v1/namespaces/default/configmaps', { timeoutSeconds: 1 }, (type, o) => events.push(`${type} ${o.metadata.name}`),
    error => error ? failed(error) : done(events)).catch(failed)
})
show('watch', seen)
await core.readNamespacedPod({ name: 'none', namespace: 'default' }).catch(e => show('none', [String(e.code)]))
