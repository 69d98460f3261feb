package compat

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// consumer is a program that others use to read topics.
type consumer struct {
	name    string // the name for ONLY
	title   string
	needs   string // what must be set or added, in addition to the address and the topics
	resumes bool   // it keeps a state, and goes on from there
	skips   bool   // it skips tombstones
	prefix  string // prefix of its topics, if it is not the common one
	few     bool   // it reads no topics without tombstones: another consumer does that with the same program
	codecs  bool   // it shows which codecs the client reads
	failure string // why it can't read some topics right, if it can't
	fails   []topics

	install func(ctx context.Context, base string) (version string, err error)
	expect  func(objects) []row
	read    func(context.Context, reading) ([]row, error)
}

var consumers = slices.Concat(flinkConsumers, connectConsumers, []consumer{
	sparkConsumer,
	{name: "java", codecs: true, title: "Kafka's Java consumer", needs: "`isolation.level=read_committed`", install: kafkaJars,
		expect: completeObjects("pods", "configmaps"), read: javaTable},
	{name: "console", title: "Kafka's console consumer", needs: "`--isolation-level read_committed`", install: kafkaJars,
		expect: completeObjects("pods"), read: consoleConsumer},
	{name: "streams", title: "Kafka Streams, KTable", needs: "`consumer.isolation.level=read_committed`", resumes: true,
		install: kafkaJars, expect: completeObjects("pods"), read: streamsTable},
	{name: "franz-go", codecs: true, title: "franz-go (Go)", needs: "`kgo.FetchIsolationLevel(kgo.ReadCommitted())`",
		install: installGo("franz", "github.com/twmb/franz-go/pkg/kgo"), expect: completeObjects("pods", "configmaps"), read: goTable("franz")},
	{name: "sarama", codecs: true, title: "sarama (Go)", needs: "`config.Consumer.IsolationLevel = sarama.ReadCommitted`",
		install: installGo("sarama", "github.com/IBM/sarama"), expect: completeObjects("pods", "configmaps"), read: sarama},
	{name: "kcat", codecs: true, title: "kcat", needs: "", install: installKcat, expect: completeObjects("pods"), read: kcat},
	{name: "confluent-kafka", codecs: true, title: "confluent-kafka (Python)", needs: "", install: python("confluent-kafka"),
		expect: completeObjects("pods", "configmaps"), read: pythonTable("confluent.py")},
	{name: "confluent-avro", prefix: inAvro.Prefix, title: "confluent-kafka (Python), AvroDeserializer",
		needs: "`KUBECDC_ENCODING=avro`", install: installAvroDeserializer, expect: podColumns, read: avroTable},
	{name: "kafka-python", codecs: true, title: "kafka-python", needs: "`isolation_level=\"read_committed\"`, python-snappy",
		install: python("kafka-python"), expect: completeObjects("pods", "configmaps"), read: pythonTable("kafka_python.py")},
	{name: "aiokafka", codecs: true, title: "aiokafka (Python)", needs: "`isolation_level=\"read_committed\"`, cramjam",
		install: python("aiokafka"), expect: completeObjects("pods", "configmaps"), read: pythonTable("aio.py")},
	{name: "kafkajs", codecs: true, title: "kafkajs (Node.js)", needs: "kafkajs-snappy",
		fails: []topics{compacted, forgetful},
		failure: "it may stop, without an error, at a record batch that compaction has emptied. " +
			"So it suits only topics that are never compacted (`KUBECDC_KAFKA_HISTORY=forever`).",
		install: installKafkajs,
		expect:  completeObjects("pods", "configmaps"), read: kafkajs},
})

// Java's programs are single files, which java compiles by itself.

var kafkaLibs string

func kafkaJars(ctx context.Context, base string) (version string, err error) {
	kafkaLibs, err = jars(ctx, base, "kafka")
	return pinned("kafka", "kafka-streams"), err
}

// java runs a program with all jars of some folders.
func java(ctx context.Context, r reading, dirs []string, args ...string) ([]byte, error) {
	return output(ctx, r.dir, nil, "java", javaArgs(r, dirs, args...)...)
}

func javaArgs(r reading, dirs []string, args ...string) []string {
	path := strings.Join(dirs, "/*:") + "/*:" + dirs[len(dirs)-1]
	return append([]string{"-Xmx768m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.io.tmpdir=" + r.dir,
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", path}, args...)
}

func javaTable(ctx context.Context, r reading) ([]row, error) {
	path, err := r.place("Table.java", read("java/Table.java"))
	if err != nil {
		return nil, err
	}
	out, err := java(ctx, r, []string{kafkaLibs}, path)
	topics := map[string][]byte{} // objects of two resources may have one key
	for line := range bytes.Lines(out) {
		topic, record, _ := bytes.Cut(line, []byte("\t"))
		topics[string(topic)] = append(topics[string(topic)], record...)
	}
	var all []row
	for _, records := range topics {
		var rows []row
		rows, err = foldText(records, "\t", err)
		all = append(all, rows...)
	}
	return all, err
}

func streamsTable(ctx context.Context, r reading) ([]row, error) {
	path, err := r.place("Streams.java", read("java/Streams.java"))
	if err != nil {
		return nil, err
	}
	out, err := java(ctx, r, []string{kafkaLibs}, path, filepath.Base(r.dir), r.dir)
	return foldText(out, "\t", err)
}

// consoleConsumer runs the class of the script, which no jar has. It ends after as many records as the topic has.
func consoleConsumer(ctx context.Context, r reading) ([]row, error) {
	count, err := r.records(ctx, pods)
	if err != nil {
		return nil, err
	}
	command := strings.Fields(strings.ReplaceAll(r.localized(read("console/kafka-console-consumer.sh")), "\\\n", ""))
	args := append([]string{"org.apache.kafka.tools.consumer.ConsoleConsumer", "--max-messages", strconv.Itoa(count)}, command[1:]...)
	out, err := java(ctx, r, []string{kafkaLibs}, args...)
	return foldText(out, "\t", err)
}

// records counts those of some topics, without aborted ones.
func (r reading) records(ctx context.Context, resources ...string) (count int, err error) {
	all, err := r.t.reading(r.log).Records(ctx)
	for _, record := range all {
		if slices.ContainsFunc(resources, func(resource string) bool { return record.Topic == r.log.topic(resource) }) {
			count++
		}
	}
	return count, err
}

// installGo gets a program's modules, and returns the version of the one that has the package.
func installGo(name, client string) func(ctx context.Context, base string) (version string, err error) {
	return func(ctx context.Context, base string) (version string, err error) {
		format := fmt.Sprintf("{{if eq .ImportPath %q}}{{.Module.Version}}{{end}}", client)
		out, err := output(ctx, base, []string{"GOWORK=off"}, "go", "list", "-C", name, "-deps", "-f", format, ".")
		return strings.TrimSpace(string(out)), err
	}
}

func goTable(name string, args ...string) func(context.Context, reading) ([]row, error) {
	return func(ctx context.Context, r reading) ([]row, error) {
		text, err := os.ReadFile(filepath.Join(name, "table.go"))
		if err != nil {
			return nil, err
		}
		path, err := r.place("table.go", string(text))
		if err != nil {
			return nil, err
		}
		args := append([]string{"run", "-C", name, path}, args...)
		out, err := output(ctx, r.dir, []string{"GOWORK=off"}, "go", args...)
		if err != nil {
			return nil, err
		}
		return parseRows(out)
	}
}

// sarama ends after as many records as the topics have.
func sarama(ctx context.Context, r reading) ([]row, error) {
	count, err := r.records(ctx, pods, configmaps)
	if err != nil {
		return nil, err
	}
	return goTable("sarama", strconv.Itoa(count))(ctx, r)
}

func installKcat(ctx context.Context, _ string) (version string, err error) {
	if err := debian(ctx, "kcat"); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "kcat", "-V").CombinedOutput()
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`Version (\S+) .*(librdkafka \S+)`).FindStringSubmatch(string(out))
	if found == nil {
		return "", fmt.Errorf("kcat -V says no version: %s", out)
	}
	return found[1] + ", " + found[2], nil
}

// kcat ends at the end of the topic by -e, and shows a null value by -Z.
func kcat(ctx context.Context, r reading) ([]row, error) {
	command := strings.TrimSpace(r.localized(read("console/kcat.sh")))
	out, err := output(ctx, r.dir, nil, "sh", "-c", command+" -q -e -Z")
	return foldText([]byte(strings.ReplaceAll(string(out), "} NULL\n", "} null\n")), "} ", err)
}

// foldText makes a table of lines that have a key, a separator and a value. A brace in the separator belongs to the key.
func foldText(text []byte, separator string, err error) ([]row, error) {
	if err != nil {
		return nil, err
	}
	var records []record
	for line := range strings.Lines(string(text)) {
		key, value, found := strings.Cut(line, separator)
		if !found {
			return nil, fmt.Errorf("a line without a key and a value: %.100q", line)
		}
		records = append(records, record{key + strings.TrimSpace(separator), value})
	}
	return fold(records)
}

// The folders of Python's packages: the clients as they are shipped, and what some need for some codecs.
var pythonShipped, pythonCodecs string

func python(name string) func(ctx context.Context, base string) (version string, err error) {
	return func(ctx context.Context, base string) (version string, err error) {
		if pythonShipped, err = pythonPackages(ctx, base, "shipped"); err != nil {
			return "", err
		}
		if pythonCodecs, err = pythonPackages(ctx, base, "codecs"); err != nil {
			return "", err
		}
		out, err := output(ctx, base, []string{"PYTHONPATH=" + pythonShipped}, "python3", "-c",
			fmt.Sprintf("import importlib.metadata as m; print(m.version(%q))", name))
		return strings.TrimSpace(string(out)), err
	}
}

func pythonTable(file string) func(context.Context, reading) ([]row, error) {
	return func(ctx context.Context, r reading) ([]row, error) {
		path, err := r.place(file, read("python/"+file))
		if err != nil {
			return nil, err
		}
		packages := pythonShipped
		if !r.shipped {
			packages += ":" + pythonCodecs
		}
		out, err := output(ctx, r.dir, []string{"PYTHONPATH=" + packages}, "python3", path)
		if err != nil {
			return nil, err
		}
		return parseRows(out)
	}
}

var pythonAvro string

func installAvroDeserializer(ctx context.Context, base string) (version string, err error) {
	pythonAvro, err = pythonPackages(ctx, base, "avro")
	_, rest, _ := strings.Cut(read("python/avro.txt"), "confluent-kafka==")
	version, _, _ = strings.Cut(rest, "\n")
	return version, err
}

func avroTable(ctx context.Context, r reading) ([]row, error) {
	path, err := r.place("confluent_avro.py", read("python/confluent_avro.py"))
	if err != nil {
		return nil, err
	}
	out, err := output(ctx, r.dir, []string{"PYTHONPATH=" + pythonAvro}, "python3", path)
	if err != nil {
		return nil, err
	}
	return parseRows(out)
}

var kafkajsShipped, kafkajsCodecs string

func installKafkajs(ctx context.Context, base string) (version string, err error) {
	const client, codec = "kafkajs@2.2.4", "kafkajs-snappy@1.1.0"
	if kafkajsShipped, err = nodePackages(ctx, base, "kafkajs", client); err != nil {
		return "", err
	}
	if kafkajsCodecs, err = nodePackages(ctx, base, "kafkajs-snappy", client, codec); err != nil {
		return "", err
	}
	return strings.TrimPrefix(client, "kafkajs@"), nil
}

func kafkajs(ctx context.Context, r reading) ([]row, error) {
	program, packages := read("kafkajs/table.js"), kafkajsCodecs
	if r.shipped {
		program, packages = regexp.MustCompile(`(?m)^.*kafkajs-snappy.*$`).ReplaceAllString(program, ""), kafkajsShipped
	}
	// Readings at the same time would share the partitions of one group.
	path, err := r.place("table.js", strings.ReplaceAll(program, "'inventory'", "'"+filepath.Base(r.dir)+"'"))
	if err != nil {
		return nil, err
	}
	env := []string{"NODE_PATH=" + filepath.Join(packages, "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING=1"}
	out, err := output(ctx, r.dir, env, "node", path)
	if err != nil {
		return nil, err
	}
	return parseRows(out)
}
