package servers

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const jaas = "org.apache.kafka.common.security."

// properties is the broker's server.properties.
func (k *Kafka) properties() map[string]string {
	session := kafkaSession
	if k.proc != nil || k.opts.Joined {
		session = kafkaSessionShort
	}
	all := kafkaBasics(k.instance.path("data"), k.control, session)
	all["log.dirs"] = strings.Join(k.data(), ",")
	k.addListeners(all)
	if k.opts.SASL {
		addSASL(all, "sasl")
	}
	if k.opts.TLS {
		k.addTLS(all, "tls", "requested")
	}
	if k.opts.Guarded {
		addSASL(all, "proxied_0")
		k.addTLS(all, "proxied_0", "required")
	}
	if k.opts.ACLs {
		all["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
		all["super.users"] = "User:ANONYMOUS"
	}
	if k.id > 1 {
		joined(all, k.id)
	}
	maps.Copy(all, k.opts.Properties)
	return all
}

// kafkaBasics is what makes one small node of a broker and a controller.
func kafkaBasics(data, controller string, session time.Duration) map[string]string {
	return map[string]string{
		"process.roles":                            "broker,controller",
		"node.id":                                  "1",
		"controller.quorum.voters":                 "1@" + controller,
		"controller.listener.names":                "CONTROLLER",
		"inter.broker.listener.name":               "PLAINTEXT",
		"log.dirs":                                 data,
		"auto.create.topics.enable":                "false",
		"default.replication.factor":               "1",
		"min.insync.replicas":                      "1",
		"offsets.topic.replication.factor":         "1",
		"offsets.topic.num.partitions":             "4",
		"transaction.state.log.replication.factor": "1",
		"transaction.state.log.min.isr":            "1",
		"transaction.state.log.num.partitions":     "4",
		"group.initial.rebalance.delay.ms":         "0",
		"log.retention.ms":                         "-1", // the sink refuses data topics that expire
		"log.cleaner.dedupe.buffer.size":           "8388608",
		"log.cleaner.backoff.ms":                   "500", // a test that waits for a compaction
		"broker.session.timeout.ms":                strconv.FormatInt(session.Milliseconds(), 10),
		"broker.heartbeat.interval.ms":             "400",
		// A broker that has nothing to do takes a third less: fewer threads that poll, and fewer records that only say that it is
		// there.
		"num.network.threads":           "1",
		"num.io.threads":                "4",
		"background.threads":            "2",
		"metadata.max.idle.interval.ms": "5000",
	}
}

func (k *Kafka) addListeners(all map[string]string) {
	listeners := []string{"CONTROLLER://" + k.control, "PLAINTEXT://" + k.Brokers[0]}
	advertised := []string{"PLAINTEXT://" + k.Brokers[0]}
	protocols := "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL"
	for i, lane := range k.lanes {
		name, protocol := fmt.Sprint("PROXIED_", i), "PLAINTEXT"
		if k.opts.Guarded {
			protocol = "SASL_SSL"
		}
		listeners, advertised = append(listeners, name+"://"+lane.behind), append(advertised, name+"://"+lane.Address)
		protocols += "," + name + ":" + protocol
	}
	for _, address := range k.SASLBrokers {
		listeners = append(listeners, "SASL://"+address)
		advertised = append(advertised, "SASL://"+address)
	}
	for _, address := range k.TLSBrokers {
		listeners = append(listeners, "TLS://"+address)
		advertised = append(advertised, "TLS://"+address)
	}
	all["listeners"] = strings.Join(listeners, ",")
	all["advertised.listeners"] = strings.Join(advertised, ",")
	all["listener.security.protocol.map"] = protocols
}

func addSASL(all map[string]string, listener string) {
	prefix := "listener.name." + listener
	all[prefix+".sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
	all[prefix+".plain.sasl.jaas.config"] = fmt.Sprintf(
		"%splain.PlainLoginModule required user_%s=%q;", jaas, KafkaUser, KafkaPassword)
	for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
		// Its users are in the formatted data folder: see formatKafka.
		all[prefix+"."+mechanism+".sasl.jaas.config"] = jaas + "scram.ScramLoginModule required;"
	}
}

func (k *Kafka) addTLS(all map[string]string, listener, clients string) {
	prefix := "listener.name." + listener + ".ssl."
	all[prefix+"keystore.type"] = "PEM"
	all[prefix+"keystore.location"] = k.keystore
	all[prefix+"truststore.type"] = "PEM"
	all[prefix+"truststore.location"] = k.CACertFile
	all[prefix+"client.auth"] = clients
}

func writeProperties(path string, all map[string]string) error {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s=%s\n", key, all[key])
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("write Kafka's settings: %w", err)
	}
	return nil
}
