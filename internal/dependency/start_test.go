package dependency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
)

var step = dependency.Step{Awaited: "the server", Address: "here:1", Limit: 20 * time.Second}

// refused returns a server's error answer, with Retry-After in seconds.
func refused(code int32, after int32) error {
	return fmt.Errorf("ask: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: fmt.Sprint("no ", code),
		Reason: metav1.StatusReasonTooManyRequests, Details: &metav1.StatusDetails{RetryAfterSeconds: after}}})
}

// waiting begins a start whose log and notifications can be read.
func waiting() (s *dependency.Steps, log *bytes.Buffer, reasons *[]string) {
	log, reasons = &bytes.Buffer{}, &[]string{}
	return dependency.NewStart(slog.New(slog.NewTextHandler(log, nil)), func(err error) { *reasons = append(*reasons, fmt.Sprint(err)) }), log, reasons
}

// A passing failure is retried, after the time that the server asks for, and logged once for each reason.
func TestAStepIsTriedAgainAsTheServerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log, reasons := waiting()
		answers := []error{refused(429, 7), refused(429, 0), refused(503, 0), nil}
		var asked []time.Time
		err := s.Do(t.Context(), step, func(context.Context) error {
			asked = append(asked, time.Now())
			return answers[len(asked)-1]
		})
		if err != nil || len(asked) != 4 || asked[1].Sub(asked[0]) < 7*time.Second || asked[2].Sub(asked[1]) > 2*time.Second {
			t.Errorf("asked at %v: %v", asked, err)
		}
		if text := log.String(); strings.Count(text, "waiting for the server") != 3 || strings.Count(text, "no longer") != 1 {
			t.Errorf("the log is\n%s", text)
		}
		if got := strings.Join(*reasons, "; "); !strings.Contains(got, "waiting for the server (here:1): ask: no 503") || !strings.HasSuffix(got, "<nil>") {
			t.Errorf("the reasons are: %s", got)
		}
	})
}

// An attempt that hangs longer than its limit is logged after some seconds, and no second attempt is made.
func TestAnAttemptThatHangsIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log, _ := waiting()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		hangs := make(chan bool)
		var asked atomic.Int32
		err := s.Do(ctx, step, func(context.Context) error {
			asked.Add(1)
			<-hangs
			return nil
		})
		close(hangs)
		if !errors.Is(err, context.DeadlineExceeded) || asked.Load() != 1 {
			t.Errorf("asked %d times: %v", asked.Load(), err)
		}
		if n := strings.Count(log.String(), "no answer yet"); n < 50 || n > 60 {
			t.Errorf("logged %d times in an hour", n)
		}
	})
}

// An upgrade of tables takes longer than the step's limit, is said, and does not begin again.
func TestAnUpgradeIsWaitedFor(t *testing.T) {
	for name, long := range map[string]time.Duration{"short": time.Second, "longer than the limit": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, log, _ := waiting()
				asked := 0
				upgrade := func(ctx context.Context) error {
					asked++
					ctx, err := dependency.Upgrade(ctx, 1, 2)
					if err != nil {
						return err
					}
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(long):
						return nil
					}
				}
				began, copied := time.Now(), step
				copied.Upgrades = true
				err := errors.Join(s.Do(t.Context(), step, upgrade), dependency.Once(t.Context(), copied, upgrade))
				if err != nil || asked != 2 || time.Since(began) != 2*long {
					t.Errorf("asked %d times in %s: %v", asked, time.Since(began), err)
				}
				if said := strings.Contains(log.String(), "brought up to date"); said != (long > time.Minute) || strings.Contains(log.String(), "no answer") {
					t.Errorf("the log is\n%s", log)
				}
			})
		})
	}
}

func TestAnUpgradeEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		copied := step
		copied.Upgrades = true
		err := dependency.Once(ctx, copied, func(ctx context.Context) error {
			ctx, err := dependency.Upgrade(ctx, 1, 2)
			if err == nil {
				<-ctx.Done()
				err = ctx.Err()
			}
			ended <- err
			return err
		})
		if inner := <-ended; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(inner, context.DeadlineExceeded) {
			t.Errorf("%v, within: %v", err, inner)
		}
	})
}

// A command of a new release leaves the tables of a running older exporter as they are.
func TestACommandDoesNotUpgrade(t *testing.T) {
	err := dependency.Once(t.Context(), step, func(ctx context.Context) error {
		_, err := dependency.Upgrade(ctx, 1, 2)
		return err
	})
	if !fault.Is[*fault.OlderTablesError](err) {
		t.Errorf("it upgrades: %v", err)
	}
}

// An attempt that ends at its limit is followed by another.
func TestAnAttemptThatEndsAtItsLimitIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log, _ := waiting()
		asked := 0
		err := s.Do(t.Context(), step, func(ctx context.Context) error {
			if asked++; asked > 10 {
				return nil
			}
			<-ctx.Done()
			return &url.Error{Op: "Get", URL: "https://here", Err: ctx.Err()}
		})
		if err != nil || asked != 11 || !strings.Contains(log.String(), "waited 20s for the server (here:1)") {
			t.Errorf("asked %d times: %v\n%s", asked, err, log)
		}
	})
}

// A reason that differs only in this side's port is the same reason, and so is a silence between two failures.
func TestAReasonIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log, _ := waiting()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		port := 40000
		_ = s.Do(ctx, step, func(ctx context.Context) error {
			port++
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
			return &url.Error{Op: "Get", Err: &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: &net.TCPAddr{Port: 6443}, Err: syscall.ECONNRESET}}
		})
		if n := strings.Count(log.String(), "waiting for"); n != 2 || !strings.Contains(log.String(), "connection reset") {
			t.Errorf("logged %d times\n%s", n, log)
		}
	})
}

func TestTheEndOfTheContextEndsAStepAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := waiting()
		hangs := make(chan bool)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := s.Do(ctx, step, func(context.Context) error { <-hangs; return nil })
		close(hangs)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestWhatPasses(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		err    error
		passes bool
	}{
		{fmt.Errorf("reach: %w", &url.Error{Op: "Get", Err: dial}), true},
		{&url.Error{Op: "Get", Err: errors.New("getting credentials: exec: executable login failed with exit code 1")}, true},
		{&url.Error{Op: "Get", Err: errors.New("getting credentials: exec: executable login not found")}, false},
		{&url.Error{Op: "Get", Err: &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}}, false},
		{refused(401, 0), false},
		{refused(504, 0), true},
		{&fault.Database{Err: dial, Transient: true}, true},
		{&fault.Database{Err: dial}, false},
		{errors.New("no idea"), false},
	} {
		if got := dependency.Passing(c.err); got != c.passes {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
