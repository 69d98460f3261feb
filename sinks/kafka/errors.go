package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"kubecdc/sinks"
)

// verdict is what to do after an error.
type verdict int

const (
	fail    verdict = iota // trying again can't help
	retry                  // the same request to the same broker may succeed soon
	relearn                // the cluster has changed: ask who leads, then try again
	fenced                 // the broker takes no more from this producer
	refused                // this record batch is not accepted; a smaller one may be
)

// verdicts: which of the broker's errors are more than a failure, each with why.
var verdicts = map[kafka.Error]verdict{
	kafka.RequestTimedOut:              retry,   // acknowledgements are late; a repeated batch is recognised by its sequence
	kafka.NetworkException:             relearn, // the broker lost its connection to another
	kafka.NotEnoughReplicas:            retry,   // below min.insync.replicas until a replica is back; nothing was written
	kafka.NotEnoughReplicasAfterAppend: retry,   // written but not yet replicated; the repeat is recognised
	kafka.KafkaStorageError:            relearn, // a disk failed: another replica takes over
	kafka.ThrottlingQuotaExceeded:      retry,   // topic creation above the quota
	kafka.InvalidMessage:               retry,   // damaged on the way (CRC)

	// The leader moved, or is being elected, or our view of the cluster is old.
	kafka.UnknownTopicOrPartition: relearn,
	kafka.LeaderNotAvailable:      relearn,
	kafka.NotLeaderForPartition:   relearn,
	kafka.BrokerNotAvailable:      relearn,
	kafka.ReplicaNotAvailable:     relearn,
	kafka.FencedLeaderEpoch:       relearn,
	kafka.UnknownLeaderEpoch:      relearn,
	kafka.OffsetNotAvailable:      retry, // the new leader has not yet settled its high watermark
	kafka.UnknownTopicID:          relearn,
	kafka.NotController:           relearn,

	// The transaction coordinator is starting, moved, or still ends the previous transaction.
	kafka.GroupLoadInProgress:          retry,
	kafka.GroupCoordinatorNotAvailable: relearn,
	kafka.NotCoordinatorForGroup:       relearn,
	kafka.ConcurrentTransactions:       retry,

	// There is a newer producer epoch. A newer owner of the slot has it; or the coordinator itself, which has ended a
	// transaction that was open for longer than its timeout.
	kafka.ProducerFenced:       fenced, // says the coordinator
	kafka.InvalidProducerEpoch: fenced, // says a partition's leader, or an older coordinator

	// The broker does not know the producer, or not its transaction: the transactional id has expired
	// (transactional.id.expiration.ms), or the broker has lost what it knew. A new producer mends it.
	kafka.InvalidTransactionState:  fail,
	kafka.InvalidProducerIDMapping: fail,
	kafka.UnknownProducerId:        fail,
	kafka.OutOfOrderSequenceNumber: fail,

	kafka.MessageSizeTooLarge: refused, // above max.message.bytes
	kafka.RecordListTooLarge:  refused, // above segment.bytes
	kafka.InvalidRecord:       refused, // a record breaks a rule of the topic
}

// worse gives the error that matters more: one that ends the log over one that is to be retried.
func worse(a, b error) error {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	}
	if v := judge(a); v == retry || v == relearn {
		return b
	}
	return a
}

const (
	lateHint = "unless another process has taken the slot over, Kafka ended the transaction since it was open for longer than " +
		"KUBECDC_KAFKA_TRANSACTION_TIMEOUT: nothing is lost by that; raise it where outages are usually longer"
	expiredHint = "the broker has forgotten the producer, after transactional.id.expiration.ms or a loss of its own: a new one is made"
)

// hints: what the user can do.
var hints = map[kafka.Error]string{
	kafka.TopicAuthorizationFailed:           "grant Describe, Read and Write on the topics PREFIX.*, and Create where topics are made on demand; exporter check names what is missing",
	kafka.ClusterAuthorizationFailed:         "grant IdempotentWrite on the cluster, and Create where topics are made on demand",
	kafka.GroupAuthorizationFailed:           "grant access to the coordinator",
	kafka.TransactionalIDAuthorizationFailed: "grant Write on the transactional ids PREFIX-CLUSTER-*",
	kafka.SASLAuthenticationFailed:           "check the SASL user and password",
	kafka.UnsupportedSASLMechanism:           "check the SASL mechanism: the broker's listener has not enabled it",
	kafka.IllegalSASLState:                   "check that the listener wants SASL",
	kafka.InvalidReplicationFactor:           "set a replication factor no larger than the number of brokers",
	kafka.InvalidPartitionNumber:             "set a number of partitions above 0",
	kafka.PolicyViolation:                    "the broker's policy refuses the topic: make it by hand",
	kafka.InvalidTransactionTimeout:          "the broker's transaction.max.timeout.ms is below KUBECDC_KAFKA_TRANSACTION_TIMEOUT: lower that, or raise the broker's",
	kafka.ProducerFenced:                     lateHint,
	kafka.InvalidProducerEpoch:               lateHint,
	kafka.InvalidTransactionState:            expiredHint,
	kafka.InvalidProducerIDMapping:           expiredHint,
	kafka.UnknownProducerId:                  expiredHint,
	kafka.UnsupportedVersion:                 "Kafka 2.0 or newer is needed",
	kafka.UnsupportedCompressionType:         "choose another compression: zstd needs Kafka 2.1",
	kafka.NotEnoughReplicas:                  "start the brokers that hold the replicas, or lower min.insync.replicas",
	kafka.NotEnoughReplicasAfterAppend:       "start the brokers that hold the replicas, or lower min.insync.replicas",
	kafka.ConcurrentTransactions:             "the transaction before can't be completed: start the brokers that hold the replicas of what it wrote to, or lower min.insync.replicas",
	kafka.GroupCoordinatorNotAvailable:       "check __transaction_state: its replication factor (transaction.state.log.replication.factor) must not exceed the brokers",
	kafka.UnknownTopicOrPartition:            "the topic is not there, or may not be seen: it is made anew where the user may create topics; otherwise make it, or grant Describe",
	kafka.OffsetNotAvailable:                 "start the brokers that hold the replicas",
	kafka.LeaderNotAvailable:                 "start the broker that leads the partition",
	kafka.MessageSizeTooLarge:                "raise max.message.bytes of the topic",
}

// judge classifies an error of a request.
func judge(err error) verdict {
	var code kafka.Error
	if errors.As(err, &code) {
		return verdicts[code]
	}
	var final *Error
	var refusal *sinks.RefusedError
	switch {
	case errors.As(err, &final), errors.As(err, &refusal):
		return fail
	case errors.Is(err, protocol.ErrNoTopic), errors.Is(err, protocol.ErrNoPartition), errors.Is(err, protocol.ErrNoLeader):
		return relearn // our view of the cluster does not have it yet
	case errors.Is(err, sinks.ErrInvalidWriter):
		return fenced
	case isTrustError(err):
		return fail
	}
	// Anything else is the connection: refused, reset, closed, timed out. The outcome of the request is
	// unknown; every request that is retried is idempotent.
	return relearn
}

func isTrustError(err error) bool {
	var (
		refused   *CertificateError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		header    tls.RecordHeaderError
	)
	return errors.As(err, &refused) || errors.As(err, &verify) || errors.As(err, &authority) || errors.As(err, &header)
}

// notLetIn: a connection was refused for its certificate or login, before any request.
func notLetIn(err error) bool {
	return isTrustError(err) || errors.Is(err, kafka.SASLAuthenticationFailed) ||
		errors.Is(err, kafka.UnsupportedSASLMechanism) || errors.Is(err, kafka.IllegalSASLState)
}

// Error is a request that failed for good.
type Error struct {
	Op   string // what was tried, on what
	Err  error
	Hint string // what the user can do; may be empty
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Op + ": " + e.Err.Error()
	}
	return e.Op + ": " + e.Err.Error() + " (" + e.Hint + ")"
}

func (e *Error) Unwrap() error { return e.Err }

func newError(op string, err error) error {
	var refusal *sinks.RefusedError
	if errors.As(err, &refusal) {
		return err // it says all itself
	}
	if judge(err) == fenced {
		return &Error{Op: op, Err: fmt.Errorf("%w: %w", sinks.ErrInvalidWriter, err), Hint: hintFor(err)}
	}
	return &Error{Op: op, Err: err, Hint: hintFor(err)}
}

func hintFor(err error) string {
	var code kafka.Error
	if errors.As(err, &code) {
		return hints[code]
	}
	var cert *CertificateError
	var file *fileError
	switch {
	case errors.As(err, &file):
		return "put it in order: it is read anew for each connection"
	case errors.As(err, &cert):
		return "renew the certificate, or check the clocks and the authorities that each side trusts: files are read anew for each connection"
	case isTrustError(err):
		return "check the TLS settings: the authority, the server name, and whether the listener speaks TLS"
	case errors.Is(err, context.DeadlineExceeded):
		return "the broker does not answer: check that it runs and can be reached at the address it advertises"
	}
	return "check that the brokers run and can be reached at the addresses they advertise, and whether the listener wants TLS or SASL"
}

// codeError is nil for code 0.
func codeError(code int16) error {
	if code == 0 {
		return nil
	}
	return kafka.Error(code)
}
