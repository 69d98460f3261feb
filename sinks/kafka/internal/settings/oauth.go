package settings

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-msk-iam-sasl-signer-go/signer"
	"github.com/segmentio/kafka-go/sasl"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// bearer is SASL's mechanism OAUTHBEARER (RFC 7628, KIP-255).
type bearer struct {
	tokens     *tokens
	extensions map[string]string
}

// Name is the same for AWS_MSK_IAM, since MSK brokers accept a signed URL as a token.
func (b *bearer) Name() string { return "OAUTHBEARER" }

// Start begins a login.
func (b *bearer) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, err := b.tokens.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	const end = "\x01"
	message := "n,," + end + "auth=Bearer " + token + end
	for _, name := range slices.Sorted(maps.Keys(b.extensions)) {
		message += name + "=" + b.extensions[name] + end
	}
	return b, []byte(message + end), nil
}

// Next answers a refusal, after which the broker sends its error code.
func (b *bearer) Next(_ context.Context, challenge []byte) (done bool, response []byte, err error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	b.tokens.refused()
	return false, []byte{1}, nil
}

// tokens returns a source of tokens: a file, or the token endpoint. Files are read each time, since they may be renewed.
func (o OAuth) tokens() *tokens {
	if o.TokenFile != "" {
		return &tokens{fetch: func(context.Context) (string, time.Time, error) {
			token, err := readSecret(o.TokenFile, "KUBECDC_KAFKA_OAUTH_TOKEN_FILE")
			return token, time.Time{}, err
		}}
	}
	// It remembers how the endpoint accepts id and secret, since trying both ways each time could lock the client out.
	grant := &clientcredentials.Config{ClientID: o.ClientID, TokenURL: o.TokenURL, Scopes: strings.Fields(o.Scope)}
	return &tokens{fetch: func(ctx context.Context) (string, time.Time, error) {
		client, err := o.client()
		if err == nil {
			grant.ClientSecret, err = readSecret(o.SecretFile, "KUBECDC_KAFKA_OAUTH_CLIENT_SECRET_FILE")
		}
		if err != nil {
			return "", time.Time{}, err
		}
		defer client.CloseIdleConnections()
		token, err := grant.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
		if err != nil {
			return "", time.Time{}, &TokenError{fmt.Errorf("fetch a token from %s (KUBECDC_KAFKA_OAUTH_TOKEN_URL) as "+
				"client %s: %w", o.TokenURL, o.ClientID, err)}
		}
		return token.AccessToken, token.Expiry, nil
	}}
}

func (o OAuth) client() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, &FileError{fmt.Errorf("read KUBECDC_KAFKA_OAUTH_CA: %w", err)}
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, &FileError{errors.New("read KUBECDC_KAFKA_OAUTH_CA: the file holds no PEM certificate")}
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}, nil
}

// mskTokens returns a source of tokens for MSK brokers, which are signed with the credentials that AWS' SDK finds.
func mskTokens(region string) *tokens {
	return &tokens{fetch: func(ctx context.Context) (string, time.Time, error) {
		token, expiry, err := signer.GenerateAuthToken(ctx, region)
		if err != nil {
			return "", time.Time{}, &TokenError{fmt.Errorf("sign a token for MSK in %s with AWS' default credentials: %w", region,
				err)}
		}
		return token, time.UnixMilli(expiry), nil
	}}
}

// TokenError means that there is no token to log in with.
type TokenError struct{ error }

func (e *TokenError) Unwrap() error { return e.error }

// tokens caches a token until a fifth of its life is left, like Kafka's own client (sasl.login.refresh.window.factor).
type tokens struct {
	// an expiry of zero means that each login needs a fetch
	fetch func(context.Context) (token string, expiry time.Time, err error)

	mu      sync.Mutex
	token   string
	err     error // error of the last fetch
	fetched time.Time
	until   time.Time // how long token or err is used
}

// spared is the shortest time between two fetches after a failure, since connections are tried again at least once a second.
const spared = 5 * time.Second

func (t *tokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Now().Before(t.until) {
		return t.token, t.err
	}
	var expiry time.Time
	t.token, expiry, t.err = t.fetch(ctx)
	t.fetched = time.Now()
	switch {
	case ctx.Err() != nil: // the caller gave up
	case t.err != nil:
		t.until = t.fetched.Add(spared)
	default:
		t.until = t.fetched.Add(expiry.Sub(t.fetched) / 5 * 4)
	}
	return t.token, t.err
}

// refused drops a token that a broker refuses. It may have been revoked, or the credentials that signed it may have expired.
func (t *tokens) refused() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.fetched) >= spared {
		t.until = time.Time{}
	}
}
