package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"kubecdc/internal/fault"
	"kubecdc/sinks"
)

// Verdict is what to do after an error.
type Verdict int

const (
	Fail     Verdict = iota // the request would fail again
	Retry                   // the same request to the same broker may succeed soon
	Refresh                 // the view of the cluster is old: fetch the metadata, then retry
	Fenced                  // the producer is fenced: its epoch is no longer the newest
	TooLarge                // the record batch is refused, but a smaller one may be accepted
)

// verdicts are the error codes that mean more than a failure, each with the reason.
var verdicts = map[kafka.Error]Verdict{
	kafka.RequestTimedOut:              Retry,   // acknowledgements are late. A repeated batch is recognised by its sequence
	kafka.NetworkException:             Refresh, // the broker lost its connection to another
	kafka.NotEnoughReplicas:            Retry,   // below min.insync.replicas until a replica is back; nothing was written
	kafka.NotEnoughReplicasAfterAppend: Retry,   // written but not yet replicated; the repeat is recognised
	kafka.KafkaStorageError:            Refresh, // a disk failed: another replica takes over
	kafka.ThrottlingQuotaExceeded:      Retry,   // topic creation above the quota
	kafka.InvalidMessage:               Retry,   // damaged on the way (CRC)
	kafka.Unknown:                      Refresh, // a broker that is stopping, or that has a fault and goes on with it

	// The leader moved, or is being elected, or our view of the cluster is old.
	kafka.UnknownTopicOrPartition: Refresh,
	kafka.LeaderNotAvailable:      Refresh,
	kafka.NotLeaderForPartition:   Refresh,
	kafka.BrokerNotAvailable:      Refresh,
	kafka.ReplicaNotAvailable:     Refresh,
	kafka.FencedLeaderEpoch:       Refresh,
	kafka.UnknownLeaderEpoch:      Refresh,
	kafka.OffsetNotAvailable:      Retry, // the new leader has not yet settled its high watermark
	kafka.UnknownTopicID:          Refresh,
	kafka.NotController:           Refresh,

	// The transaction coordinator is starting, moved, or still ends the previous transaction.
	kafka.GroupLoadInProgress:          Retry,
	kafka.GroupCoordinatorNotAvailable: Refresh,
	kafka.NotCoordinatorForGroup:       Refresh,
	kafka.ConcurrentTransactions:       Retry,

	// There is a newer producer epoch. Either a newer producer of the transactional id has it, or the coordinator itself. The
	// coordinator takes it when it aborts a transaction that was open for longer than its timeout.
	kafka.ProducerFenced:       Fenced, // says the coordinator
	kafka.InvalidProducerEpoch: Fenced, // says a partition's leader, or an older coordinator

	// The broker does not know the producer or its transaction. The transactional id has expired
	// (transactional.id.expiration.ms), or the broker has lost its state. A new producer is needed.
	kafka.InvalidTransactionState:  Fail,
	kafka.InvalidProducerIDMapping: Fail,
	kafka.UnknownProducerId:        Fail,
	kafka.OutOfOrderSequenceNumber: Fail,

	kafka.MessageSizeTooLarge: TooLarge, // above max.message.bytes
	kafka.RecordListTooLarge:  TooLarge, // above segment.bytes
	kafka.InvalidRecord:       TooLarge, // a record breaks a rule of the topic
}

// Worse returns the error that matters more. A final error matters more than one that is retried.
func Worse(a, b error) error {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	}
	if v := Judge(a); v == Retry || v == Refresh {
		return b
	}
	return a
}

// Judge classifies an error of a request.
func Judge(err error) Verdict {
	if fault.Is[*final](err) {
		return Fail
	}
	if code, ok := errors.AsType[kafka.Error](err); ok {
		return verdicts[code]
	}
	switch {
	case fault.Is[*Error](err), fault.Is[*sinks.MovedError](err):
		return Fail
	case errors.Is(err, protocol.ErrNoTopic), errors.Is(err, protocol.ErrNoPartition), errors.Is(err, protocol.ErrNoLeader):
		return Refresh // our view of the cluster does not have it yet
	case IsTrustError(err):
		return Fail
	}
	// Anything else is the connection: refused, reset, closed, timed out. The outcome of the request is unknown, and every
	// request that is retried is idempotent.
	return Refresh
}

// connectionRefused reports whether a connection was refused because of its certificate or login, before any request.
func connectionRefused(err error) bool {
	return IsTrustError(err) || errors.Is(err, kafka.SASLAuthenticationFailed) ||
		errors.Is(err, kafka.UnsupportedSASLMechanism) || errors.Is(err, kafka.IllegalSASLState)
}

// ErrCertificate marks (errors.Is) an error of Options.Dial: one side refused the other's certificate.
var ErrCertificate = errors.New("a certificate is refused")

// IsTrustError reports whether TLS failed for a reason that does not pass by itself.
func IsTrustError(err error) bool {
	return errors.Is(err, ErrCertificate) || fault.Is[*tls.CertificateVerificationError](err) ||
		fault.Is[x509.UnknownAuthorityError](err) || fault.Is[tls.RecordHeaderError](err)
}

// Error is a request that failed and is not retried.
type Error struct {
	Op   string // the operation and its object
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

// NewError adds the operation and a hint to an error. It does not change an error made by Final.
func (c *Client) NewError(op string, err error) error {
	if f, ok := errors.AsType[*final](err); ok {
		return f.error
	}
	return &Error{Op: op, Err: err, Hint: c.Hint(err)}
}

// Final returns an error that ends the attempts and is returned unchanged.
func Final(err error) error { return &final{err} }

type final struct{ error }

func (f *final) Unwrap() error { return f.error }

// CodeError returns the error for a code, or nil for code 0.
func CodeError(code int16) error {
	if code == 0 {
		return nil
	}
	return kafka.Error(code)
}

// WithText adds the broker's message to an error.
func WithText(err error, text string) error {
	if err == nil || text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// ofOneTopic are the errors that concern only one topic.
var ofOneTopic = map[kafka.Error]bool{
	kafka.TopicAuthorizationFailed: true, // a right is missing
	kafka.InvalidTopic:             true, // its name is not valid
	kafka.PolicyViolation:          true, // create.topic.policy.class.name refuses it
	// for this error and the next two: the topic can't be created as configured, but other topics may exist
	kafka.InvalidConfiguration:     true,
	kafka.InvalidReplicationFactor: true,
	kafka.InvalidPartitionNumber:   true,
	kafka.InvalidTimestamp:         true, // message.timestamp.before.max.ms: objects may be older
}

// ErrExpires says that a topic's settings let Kafka remove records that must remain.
var ErrExpires = errors.New("Kafka may remove records that must remain")

// ErrCollides says that a topic's name belongs to another log.
var ErrCollides = errors.New("both logs would write to this topic")

// OfOneTopic reports whether an error concerns only one topic.
func OfOneTopic(err error) bool {
	code, _ := errors.AsType[kafka.Error](err)
	return ofOneTopic[code] || errors.Is(err, ErrExpires) || errors.Is(err, ErrCollides)
}
