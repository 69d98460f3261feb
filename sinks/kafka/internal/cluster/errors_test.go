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
	"testing/synctest"
	"time"

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

// A broker that is stopping answers so once or twice. If it goes on with that, however long each answer takes, the caller gets the error.
func TestAnUnknownErrorIsRetriedForSomeSeconds(t *testing.T) {
	for answer, want := range map[time.Duration][2]int{0: {leastAttempts, 20}, 5 * time.Second: {leastAttempts, leastAttempts + 1}} {
		synctest.Test(t, func(t *testing.T) {
			client := New(Options{Logger: slog.New(slog.DiscardHandler), Hint: func(error) string { return "" }, Stuck: func(error) {}})
			tried, began := 0, time.Now()
			err := client.Try(t.Context(), "list offsets", func(context.Context) error {
				time.Sleep(answer)
				tried++
				return kafka.Unknown
			})
			if !errors.Is(err, kafka.Unknown) || tried < want[0] || tried > want[1] || time.Since(began) <= patience {
				t.Errorf("with answers in %v it was tried %d times in %v: %v", answer, tried, time.Since(began), err)
			}
		})
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
