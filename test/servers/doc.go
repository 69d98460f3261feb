// Package servers installs and starts the real servers that the tests, the demo and CI run against: kube-apiserver with etcd,
// Apache Kafka, PostgreSQL.
//
// No container engine and no download site is needed. Kubernetes and etcd are built from their Go modules (test/kube), Kafka's jars come
// from Maven Central, Postgres from the machine or from Maven Central. All of it lives in one git-ignored folder at the project root,
// .servers/ (or the folder named by KUBECDC_SERVERS_DIR). Each running server has a folder of its own under .servers/run/. It is removed
// when the server stops, unless KUBECDC_SERVERS_KEEP is set. Root's Postgres runs as another user: where that user can't enter the
// folder, .servers/elsewhere is a link to where it runs.
//
// KUBECDC_TEST_KUBE=1.36 in the environment selects an older kube-apiserver than the newest, of those that test/kube pins.
//
// Every server ends with the process that started it. It can be restarted, killed, frozen behind a Proxy, or set back to an older state.
// It knows nothing of the exporter.
package servers
