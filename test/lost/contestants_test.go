package lost

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/test/e2e"
)

// contestant is a program that brings changes somewhere.
type contestant struct {
	name    string
	peer    string // its folder in bench/peers
	program string // if it is built elsewhere
	command func(*run) *exec.Cmd
	log     func(*run) *e2e.Log               // what the exporter has written, or nil if the program writes to a topic
	parse   func(*kgo.Record) (report, error) // a record of the topic
}

// contestants are the programs of the table, in its order. A sink of the exporter is one more line. collector is a collector of the
// reader's own, whose receiver keeps resourceVersions.
func contestants(collector string) []contestant {
	all := []contestant{
		exporter("kubecdc, SQLite", inFile),
		exporter("kubecdc, Kafka", inTopics, "KUBECDC_SINK=kafka", "KUBECDC_KAFKA_PARTITIONS=3"),
		exporter("kubecdc, Postgres", inTables, "KUBECDC_SINK=postgres"),
		exporter("kubecdc, stdout", inLines, "KUBECDC_SINK=stdout"),
		{name: "client-go's informer, kafka-go", peer: "informer", command: informer, parse: plain},
		{name: "kube-rs' watcher, rdkafka", peer: "kube-rs", command: kubeRS, parse: plain},
		{name: "OpenTelemetry's collector, k8sobjects 0.111", peer: "collector", command: collect(""), parse: event},
	}
	if collector != "" {
		all = append(all, contestant{name: "OpenTelemetry's collector with storage, " + filepath.Base(collector), program: collector,
			command: collect(storage), parse: event})
	}
	return all
}

func exporter(name string, log func(*run) *e2e.Log, settings ...string) contestant {
	command := func(r *run) *exec.Cmd {
		cmd := e2e.Command(r.t, map[string]string{"KUBECONFIG": r.kube.Kubeconfig, "KUBECDC_CLUSTER": e2e.Cluster, "KUBECDC_LISTEN": "off",
			"KUBECDC_RESOURCES": r.kind.ID(), "KUBECDC_CHECKPOINT": "sqlite:" + r.checkpoint(),
			"KUBECDC_LEASE_DURATION": "5s", "KUBECDC_KAFKA_BROKERS": r.broker(), "KUBECDC_KAFKA_TOPIC_PREFIX": r.id,
			"KUBECDC_SINK_POSTGRES": r.postgres.URL, "KUBECDC_SPOOL_DIR": filepath.Join(r.dir, "spool")}, "run")
		cmd.Env = append(cmd.Env, settings...)
		return cmd
	}
	return contestant{name: name, command: command, log: log}
}

func (r *run) checkpoint() string { return filepath.Join(r.dir, "checkpoint.db") }

func inFile(r *run) *e2e.Log {
	return (&e2e.World{File: r.checkpoint(), Prefix: e2e.Cluster}).ReadFile(r.t)
}

func inTopics(r *run) *e2e.Log { return e2e.ReadLog(r.t, r.kafka.Brokers, r.id) }

func inTables(r *run) *e2e.Log { return e2e.ReadTables(r.t, r.postgres.URL, r.id) }

// inLines reads what each process has printed.
func inLines(r *run) *e2e.Log {
	all := &e2e.Log{}
	for _, p := range r.processes {
		log, _ := e2e.ParseLines(r.t, p.out.Bytes(), r.id)
		all.Records, all.Controls = append(all.Records, log.Records...), append(all.Controls, log.Controls...)
	}
	return all
}

func informer(r *run) *exec.Cmd {
	gvr := r.kind.GVR
	return exec.Command(r.program, "-kubeconfig", r.kube.Kubeconfig, "-broker", r.broker(), "-topic", r.id,
		"-resource", gvr.Resource+"."+gvr.Version+"."+gvr.Group)
}

func kubeRS(r *run) *exec.Cmd {
	kind := map[string]string{"configmaps": "ConfigMap", "widgets": "Widget"}[r.kind.GVR.Resource]
	cmd := exec.Command(r.program, r.kind.GVR.Group+"/"+r.kind.GVR.Version+"/"+kind, r.broker(), r.id, "none")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.kube.Kubeconfig)
	return cmd
}

// The collector asks the broker for all acknowledgements and drops nothing.
const collectorConfig = `
receivers:
  k8sobjects: {auth_type: kubeConfig, objects: [{name: %q, group: %q, mode: watch}]}
exporters:
  kafka:
    brokers: [%q]
    logs: {topic: %q, encoding: raw}
    producer: {required_acks: -1}
    sending_queue: {block_on_overflow: true}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {logs: {receivers: [k8sobjects], exporters: [kafka]}}
`

// storage has the receiver keep resourceVersions, and the queue what it has not delivered.
const storage = `
extensions: {file_storage: {directory: %q}}
receivers: {k8sobjects: {storage: file_storage}}
exporters: {kafka: {sending_queue: {storage: file_storage}}}
service: {extensions: [file_storage]}
`

func collect(more string) func(*run) *exec.Cmd {
	return func(r *run) *exec.Cmd {
		file := func(name, text string) string {
			path := filepath.Join(r.dir, name)
			must(r.t, os.WriteFile(path, []byte(text), 0o600))
			return "file:" + path
		}
		args := []string{file("collector.yaml", fmt.Sprintf(collectorConfig, r.kind.GVR.Resource, r.kind.GVR.Group, r.broker(), r.id))}
		if more != "" { // one as it is released
			args = []string{"--config", args[0], "--config", file("storage.yaml", fmt.Sprintf(more, r.dir))}
		}
		cmd := exec.Command(r.program, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+r.kube.Kubeconfig)
		return cmd
	}
}

// plain parses a record whose value is the object, with the op in a header.
func plain(record *kgo.Record) (report, error) {
	var o object
	err := json.Unmarshal(record.Value, &o)
	deleted := len(record.Headers) > 0 && string(record.Headers[0].Value) == "d"
	return o.report(deleted), err
}

// event parses a record whose value is a watch event.
func event(record *kgo.Record) (report, error) {
	var e struct {
		Type   string
		Object object
	}
	err := json.Unmarshal(record.Value, &e)
	return e.Object.report(e.Type == "DELETED"), err
}

type object struct {
	Metadata struct {
		Namespace, Name string
		ResourceVersion int64 `json:",string"`
	}
}

func (o *object) report(deleted bool) report {
	return report{o.Metadata.Namespace + "/" + o.Metadata.Name, o.Metadata.ResourceVersion, deleted}
}
