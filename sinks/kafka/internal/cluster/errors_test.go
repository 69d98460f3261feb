package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"syscall"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

func TestJudge(t *testing.T) {
	client := New(Options{Logger: slog.New(slog.DiscardHandler), Hint: func(error) string { return "" }})
	for want, errs := range map[Verdict][]error{
		Retry: {kafka.RequestTimedOut, kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAfterAppend, kafka.GroupLoadInProgress,
			kafka.ConcurrentTransactions, kafka.OffsetNotAvailable},
		Refresh: {kafka.NotLeaderForPartition, kafka.LeaderNotAvailable, kafka.UnknownTopicOrPartition, kafka.NotController,
			kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup, kafka.FencedLeaderEpoch, kafka.Unknown,
			protocol.ErrNoTopic, protocol.ErrNoPartition, protocol.ErrNoLeader,
			io.EOF, syscall.ECONNREFUSED, syscall.ECONNRESET, context.DeadlineExceeded, ErrUnknownYet("t")},
		Fenced:   {kafka.ProducerFenced, kafka.InvalidProducerEpoch, client.NewError("write", kafka.ProducerFenced)},
		TooLarge: {kafka.MessageSizeTooLarge, kafka.RecordListTooLarge, kafka.InvalidRecord},
		Fail: {kafka.OutOfOrderSequenceNumber, kafka.UnknownProducerId, kafka.InvalidProducerIDMapping, kafka.InvalidTransactionState,
			kafka.TopicAuthorizationFailed, kafka.SASLAuthenticationFailed, kafka.Error(999),
			ErrCertificate, x509.UnknownAuthorityError{}, client.NewError("connect", io.EOF),
			Final(kafka.NotLeaderForPartition), Final(io.EOF)},
	} {
		for _, err := range errs {
			if got := Judge(fmt.Errorf("of one partition: %w", err)); got != want {
				t.Errorf("%v is judged %d, not %d", err, got, want)
			}
		}
	}
}

func TestAFinalErrorIsWorseThanOneThatIsRetried(t *testing.T) {
	for _, retried := range []error{kafka.RequestTimedOut, kafka.NotLeaderForPartition, io.EOF} {
		for _, final := range []error{kafka.ProducerFenced, kafka.TopicAuthorizationFailed, Final(kafka.NotLeaderForPartition)} {
			if Worse(retried, final) != final || Worse(final, retried) != final {
				t.Errorf("%v is worse than %v", retried, final)
			}
		}
		if Worse(nil, retried) != retried || Worse(retried, nil) != retried {
			t.Errorf("no error is worse than %v", retried)
		}
	}
}

// A broker that is stopping answers so once or twice. If it goes on with that, it has a fault, which the caller gets.
func TestAnUnknownErrorIsRetriedForSomeSeconds(t *testing.T) {
	client := New(Options{Logger: slog.New(slog.DiscardHandler), Hint: func(error) string { return "" }})
	a := client.Attempts("find the end of t")
	defer a.Done()
	if err := a.Pause(t.Context(), kafka.Unknown); err != nil {
		t.Error("not retried:", err)
	}
	a.Since = a.Since.Add(-patience)
	if err := a.Pause(t.Context(), kafka.Unknown); !errors.Is(err, kafka.Unknown) {
		t.Error("still retried after", patience)
	}
}

func TestTheCallersOwnErrorIsReturnedAsItIs(t *testing.T) {
	client := New(Options{Logger: slog.New(slog.DiscardHandler), Hint: func(error) string { return "" }})
	own := errors.New("the caller's own")
	err := client.Try(t.Context(), "write", func(context.Context) error { return Final(own) })
	if err != own {
		t.Errorf("error is %v", err)
	}
}
