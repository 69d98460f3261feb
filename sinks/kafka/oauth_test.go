package kafka_test

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
)

// A broker that demands a token, and ends each session after four seconds (connections.max.reauth.ms).
func TestTokens(t *testing.T) {
	t.Parallel()
	issuer, err := newIssuer(filepath.Join(t.TempDir(), "jwks.json"))
	mustDo(t, err)
	broker := startKafka(t, issuer.options())
	t.Run("renewed", func(t *testing.T) { renewedTokens(t, broker, issuer) })
	t.Run("refused", func(t *testing.T) { refusedTokens(t, broker, issuer) })
}

func withTokens(t *testing.T, broker *servers.Kafka, from kafka.OAuth) kafka.Config {
	t.Helper()
	cfg := newConfig(t, broker.SASLBrokers)
	cfg.SASL = kafka.SASL{Mechanism: "OAUTHBEARER", OAuth: from}
	return cfg
}

// endpoint serves the issuer over TLS, and returns the source of tokens.
func endpoint(t *testing.T, i *issuer) kafka.OAuth {
	t.Helper()
	server := httptest.NewTLSServer(i)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return kafka.OAuth{TokenURL: server.URL, ClientID: i.id, SecretFile: file(t, i.secret+"\n"), Scope: "kafka",
		CAFile: file(t, string(ca)), Extensions: map[string]string{"logicalCluster": "lkc-1"}}
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	mustDo(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// renewedTokens checks that a sink goes on while the broker ends its sessions and the tokens expire. Each login has a valid
// token, from the endpoint or from a file that is renewed. Nothing is lost or repeated, and no probe fails.
func renewedTokens(t *testing.T, broker *servers.Kafka, issuer *issuer) {
	issuer.life = tokenLife
	r := newReader(t, broker.Brokers)
	t.Run("from the endpoint", func(t *testing.T) {
		cfg := withTokens(t, broker, endpoint(t, issuer))
		writeWhile(t, r, broker.Brokers, cfg, func() bool { return issuer.granted.Load() < 3 })
	})
	t.Run("from a file", func(t *testing.T) {
		cfg := withTokens(t, broker, kafka.OAuth{TokenFile: rotated(t, issuer)})
		end := time.Now().Add(tokenLife + time.Second)
		writeWhile(t, r, broker.Brokers, cfg, func() bool { return time.Now().Before(end) })
	})
	t.Run("passwords have sessions too", func(t *testing.T) {
		cfg := newConfig(t, broker.SASLBrokers)
		cfg.SASL = kafka.SASL{Mechanism: "SCRAM-SHA-512", Username: servers.KafkaUser, Password: servers.KafkaPassword}
		end := time.Now().Add(6 * time.Second)
		writeWhile(t, r, broker.Brokers, cfg, func() bool { return time.Now().Before(end) })
	})
}

// tokenLife is long enough for a token to be valid when it arrives, on a busy machine.
const tokenLife = 5 * time.Second

// rotated returns a file whose token is replaced twice a second, like kubelet's projected tokens.
func rotated(t *testing.T, issuer *issuer) string {
	t.Helper()
	name := file(t, "")
	renew := func() error {
		token, err := issuer.token("kafka", tokenLife)
		return errors.Join(err, os.WriteFile(name+".new", []byte(token+"\n"), 0o600), os.Rename(name+".new", name))
	}
	mustDo(t, renew())
	ctx, tick := servers.Context(t), time.Tick(500*time.Millisecond)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick:
				_ = renew() // it fails when the test's folder is removed
			}
		}
	}()
	return name
}

// writeWhile writes batches, each of which must be in the topic once.
func writeWhile(t *testing.T, r *reader, brokers []string, cfg kafka.Config, more func() bool) {
	t.Helper()
	s := newSink(t, cfg)
	defer s.Close()
	log, _ := openLog(t, s, 0, 1, sinks.Durable{})
	var written []*change.Batch
	pace := time.Tick(50 * time.Millisecond)
	for seq := uint64(1); seq == 1 || more(); seq++ { // on a busy machine all tokens may be used before the first batch
		<-pace
		b := lives(seq, 5, 2)
		mustWrite(t, log, b)
		written = append(written, b)
		mustDo(t, s.Probe(servers.Context(t)))
	}
	wantOnce(t, r.committed(t, brokers, cfg.TopicPrefix+".pods"), written...)
}

// refusedTokens checks that a refusal says who refuses, and what to do. It shows neither a token nor the secret.
func refusedTokens(t *testing.T, broker *servers.Kafka, issuer *issuer) {
	other, err := issuer.token("another audience", time.Hour)
	mustDo(t, err)
	past, err := issuer.token("kafka", -time.Hour)
	mustDo(t, err)
	for name, tc := range map[string]struct {
		change func(*kafka.OAuth)
		want   []string
	}{
		"wrong secret": {func(o *kafka.OAuth) { o.SecretFile = file(t, "wrong-pw") },
			[]string{"fetch a token from https://", "(KUBECDC_KAFKA_OAUTH_TOKEN_URL) as client kubecdc", "invalid_client", "check the address, and the credentials"}},
		"no endpoint": {func(o *kafka.OAuth) { o.TokenURL = "https://127.0.0.1:1/token" },
			[]string{"fetch a token from https://127.0.0.1:1/token", "connection refused"}},
		"unknown authority": {func(o *kafka.OAuth) { o.CAFile = "" }, []string{"fetch a token from", "certificate"}},
		"no secret file":    {func(o *kafka.OAuth) { o.SecretFile += "-gone" }, []string{"read KUBECDC_KAFKA_OAUTH_CLIENT_SECRET_FILE", "put it in order"}},
		"wrong audience":    {func(o *kafka.OAuth) { *o = kafka.OAuth{TokenFile: file(t, other)} }, []string{"SASL Authentication Failed", "issuer, audience, scope"}},
		"expired token":     {func(o *kafka.OAuth) { *o = kafka.OAuth{TokenFile: file(t, past)} }, []string{"SASL Authentication Failed", "not expired"}},
		"empty token file":  {func(o *kafka.OAuth) { *o = kafka.OAuth{TokenFile: file(t, "\n")} }, []string{"read KUBECDC_KAFKA_OAUTH_TOKEN_FILE", "empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := withTokens(t, broker, endpoint(t, issuer))
			tc.change(&cfg.SASL.OAuth)
			err := newSink(t, cfg).Ping(servers.Context(t))
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Ping = %v, want %q", err, want)
				}
			}
			for _, secret := range []string{other, past, "wrong-pw", issuer.secret} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("the error has a secret: %v", err)
				}
			}
		})
	}
}

// MSK brokers accept a URL that is signed with AWS credentials (SigV4) as a token. There is no MSK for the test. It checks that
// the credentials in the environment sign for the right service, region and action.
func TestTokensOfMSK(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "session"} {
		t.Setenv(name, value)
	}
	message, err := kafka.FirstMessage(servers.Context(t), kafka.SASL{Mechanism: "AWS_MSK_IAM", AWSRegion: "eu-west-1"})
	mustDo(t, err)
	token, ok := strings.CutPrefix(strings.TrimRight(string(message), "\x01"), "n,,\x01auth=Bearer ")
	signed, err := base64.RawURLEncoding.DecodeString(token)
	mustDo(t, err)
	u, err := url.Parse(string(signed))
	mustDo(t, err)
	q := u.Query()
	scope := regexp.MustCompile(`^AKIDEXAMPLE/\d{8}/eu-west-1/kafka-cluster/aws4_request$`)
	if !ok || u.Host != "kafka.eu-west-1.amazonaws.com" || q.Get("Action") != "kafka-cluster:Connect" || q.Get("X-Amz-Security-Token") != "session" ||
		!scope.MatchString(q.Get("X-Amz-Credential")) || len(q.Get("X-Amz-Signature")) != 64 {
		t.Errorf("the token is %s", signed)
	}
}
