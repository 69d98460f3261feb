package servers

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
)

// Issuer signs the tokens that a broker accepts. As a handler it is a token endpoint for one client, which grants tokens for
// KafkaUser.
type Issuer struct {
	ClientID, ClientSecret string
	Life                   time.Duration // of the tokens that it grants
	Granted                atomic.Int64  // how many

	key  *ecdsa.PrivateKey
	jwks string // file
}

var base64url = base64.RawURLEncoding

// newIssuer writes its public key to a file (RFC 7517).
func newIssuer(jwks string) (*Issuer, error) {
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
	return &Issuer{ClientID: "kubecdc", ClientSecret: "client-secret", Life: time.Hour, key: key, jwks: jwks},
		os.WriteFile(jwks, []byte(text), 0o644)
}

func (i *Issuer) jwksURL() string { return "file://" + i.jwks }

// javaFlags let the broker read the keys.
func (i *Issuer) javaFlags() []string {
	if i == nil {
		return nil
	}
	return []string{"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + i.jwksURL(),
		"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files=" + i.jwks}
}

// Token signs a token for KafkaUser (RFC 7519, ES256).
func (i *Issuer) Token(audience string, life time.Duration) (string, error) {
	now := time.Now()
	claims, err := json.Marshal(map[string]any{"sub": KafkaUser, "aud": audience, "iat": now.Unix(), "exp": now.Add(life).Unix()})
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
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	w.Header().Set("Content-Type", "application/json")
	if id != i.ClientID || secret != i.ClientSecret || r.FormValue("grant_type") != "client_credentials" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"invalid_client"}`)
		return
	}
	token, err := i.Token(r.FormValue("scope"), i.Life)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	i.Granted.Add(1)
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, token, int(i.Life.Seconds()))
}
