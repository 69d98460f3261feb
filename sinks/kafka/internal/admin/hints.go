package admin

import (
	"cmp"
	"context"
	"errors"
	"net"

	"github.com/segmentio/kafka-go"

	"kubecdc/internal/fault"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/settings"
)

const (
	lateHint = "unless another process has acquired the slot, Kafka aborted the transaction since it was open for longer than " +
		"KUBECDC_KAFKA_TRANSACTION_TIMEOUT: nothing is lost by that; raise it if outages usually last longer, or if the log " +
		"says that a quota throttles this client"
	expiredHint = "the broker has forgotten the producer, after transactional.id.expiration.ms or a loss of data: a new one is " +
		"created"
)

// hints are what the user can do about a broker's error.
var hints = map[kafka.Error]string{
	kafka.SASLAuthenticationFailed: "check KUBECDC_KAFKA_SASL_USERNAME and its password, or what the broker demands of a " +
		"token: issuer, audience, scope, and that it has not expired",
	kafka.UnsupportedSASLMechanism: "check KUBECDC_KAFKA_SASL_MECHANISM: the broker's listener has not enabled it",
	kafka.IllegalSASLState:         "check that the listener wants SASL: without it, unset KUBECDC_KAFKA_SASL_MECHANISM",
	kafka.InvalidReplicationFactor: "set KUBECDC_KAFKA_REPLICATION_FACTOR, or if that is -1 the brokers' " +
		"default.replication.factor, no larger than the number of brokers",
	kafka.InvalidPartitionNumber: "set KUBECDC_KAFKA_PARTITIONS above 0",
	kafka.InvalidConfiguration:   "correct KUBECDC_KAFKA_TOPIC_CONFIG",
	kafka.PolicyViolation:        "the broker's policy refuses the topic: create it by hand",
	kafka.InvalidTransactionTimeout: "the broker's transaction.max.timeout.ms is below KUBECDC_KAFKA_TRANSACTION_TIMEOUT: " +
		"lower that, or raise the broker's",
	kafka.ProducerFenced:               lateHint,
	kafka.InvalidProducerEpoch:         lateHint,
	kafka.InvalidTransactionState:      expiredHint,
	kafka.InvalidProducerIDMapping:     expiredHint,
	kafka.UnknownProducerId:            expiredHint,
	kafka.UnsupportedVersion:           "Kafka 2.8 or newer is needed",
	kafka.UnsupportedCompressionType:   "choose another KUBECDC_KAFKA_COMPRESSION: zstd needs Kafka 2.1",
	kafka.NotEnoughReplicas:            "start the brokers that hold the replicas, or lower min.insync.replicas",
	kafka.NotEnoughReplicasAfterAppend: "start the brokers that hold the replicas, or lower min.insync.replicas",
	kafka.RequestTimedOut: "replicas do not acknowledge in time: a broker or one of its disks is slow or has failed; after " +
		"replica.lag.time.max.ms " +
		"(30 s) Kafka goes on without it, where min.insync.replicas allows that",
	kafka.ThrottlingQuotaExceeded: cluster.HintQuota,
	kafka.ConcurrentTransactions: "the previous transaction can't be completed: start the brokers that hold the replicas " +
		"of its partitions, or lower min.insync.replicas",
	kafka.GroupCoordinatorNotAvailable: "check __transaction_state: its replication factor " +
		"(transaction.state.log.replication.factor) must not exceed the number of brokers",
	kafka.UnknownTopicOrPartition: "the topic does not exist, or may not be described: create it, or grant Create or " +
		"Describe",
	kafka.OffsetNotAvailable:  "start the brokers that hold the replicas",
	kafka.LeaderNotAvailable:  "start the broker that leads the partition",
	kafka.MessageSizeTooLarge: HintTooLarge,
	kafka.InvalidTimestamp: "a record has the time of its change, and the topic takes only times near the broker's clock: set " +
		"the topic's " +
		"message.timestamp.type=LogAppendTime, or raise its message.timestamp.before.max.ms",
}

// isTimeout reports whether a connection got no data in time. It was made, so TLS and login work. A broker that throttles a
// client by a quota reads nothing from its connection meanwhile.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout()
}

// HintTooLarge is what the user can do about a record that a topic refuses.
const HintTooLarge = "raise max.message.bytes of the topic"

// Hint returns what the user can do about an error. With readOnly only the right to read is needed.
func Hint(c *settings.Config, readOnly bool, err error) string {
	if code, ok := errors.AsType[kafka.Error](err); ok {
		return cmp.Or(missing(c, readOnly, code), hints[code])
	}
	switch {
	case fault.Is[*settings.TokenError](err):
		return "check the address, and the credentials that are sent there"
	case fault.Is[*settings.FileError](err):
		return "put it in order: it is read again for each connection"
	case errors.Is(err, cluster.ErrCertificate):
		return "renew the certificate, or check the clocks and the authorities that each side trusts: files are read again for " +
			"each connection"
	case cluster.IsTrustError(err):
		return "check the TLS settings: the authority, the server name, and whether the listener speaks TLS"
	case isTimeout(err):
		return "the broker does not answer in time: check that it runs and can be reached at the address it advertises, and " +
			"whether the log says " +
			"that a quota throttles this client"
	}
	return "check that the brokers run and can be reached at the addresses they advertise, and whether the listener wants TLS " +
		"or SASL"
}
