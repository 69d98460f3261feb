package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"kubecdc/test/servers"
)

// issuer signs tokens that a broker accepts. As a handler it is a token endpoint for one client, and grants tokens for KafkaUser.
type issuer struct {
	id, secret string
	life       time.Duration // life of its tokens
	granted    atomic.Int64  // number of granted tokens

	key  *ecdsa.PrivateKey
	jwks string // file
}

var base64url = base64.RawURLEncoding

// newIssuer returns an issuer, and writes its public key to a file (RFC 7517).
func newIssuer(jwks string) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the issuer's key: %w", err)
	}
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, fmt.Errorf("make the issuer's key: %w", err)
	}
	text := fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","alg":"ES256","use":"sig","kid":"1","x":%q,"y":%q}]}`,
		base64url.EncodeToString(point[1:33]), base64url.EncodeToString(point[33:]))
	return &issuer{id: servers.KafkaUser, secret: "client-secret", life: time.Hour, key: key, jwks: jwks},
		os.WriteFile(jwks, []byte(text), 0o644)
}

func (i *issuer) jwksURL() string { return "file://" + i.jwks }

// options make a broker accept its tokens.
func (i *issuer) options() servers.KafkaOptions {
	const jaas, listener = "org.apache.kafka.common.security.oauthbearer.", "listener.name.sasl."
	return servers.KafkaOptions{SASL: true,
		JavaFlags: []string{"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + i.jwksURL(),
			"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files=" + i.jwks},
		Properties: map[string]string{
			listener + "sasl.enabled.mechanisms":                        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
			listener + "oauthbearer.sasl.jaas.config":                   jaas + "OAuthBearerLoginModule required;",
			listener + "oauthbearer.sasl.server.callback.handler.class": jaas + "OAuthBearerValidatorCallbackHandler",
			"sasl.oauthbearer.jwt.validator.class":                      jaas + "BrokerJwtValidator", // the default of Kafka 4.1 checks neither signature nor audience
			"sasl.oauthbearer.jwks.endpoint.url":                        i.jwksURL(),
			"sasl.oauthbearer.expected.audience":                        "kafka",
			"connections.max.reauth.ms":                                 "4000",
		}}
}

// token signs a token for servers.KafkaUser (RFC 7519, ES256).
func (i *issuer) token(audience string, life time.Duration) (string, error) {
	now := time.Now()
	claims, err := json.Marshal(map[string]any{"sub": servers.KafkaUser, "aud": audience, "iat": now.Unix(), "exp": now.Add(life).Unix()})
	if err != nil {
		return "", err
	}
	text := base64url.EncodeToString([]byte(`{"alg":"ES256","kid":"1"}`)) + "." + base64url.EncodeToString(claims)
	hash := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, hash[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + base64url.EncodeToString(signature), nil
}

// ServeHTTP grants a token (RFC 6749, 4.4).
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	w.Header().Set("Content-Type", "application/json")
	if id != i.id || secret != i.secret || r.FormValue("grant_type") != "client_credentials" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"invalid_client"}`)
		return
	}
	token, err := i.token(r.FormValue("scope"), i.life)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	i.granted.Add(1)
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, token, int(i.life.Seconds()))
}
