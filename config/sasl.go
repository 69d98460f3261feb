package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

func (l *loader) checkSASL(k *Kafka) {
	if l.bad["KUBECDC_KAFKA_SASL_MECHANISM"] {
		return
	}
	switch k.SASLMechanism {
	case "":
		return
	case "OAUTHBEARER":
		l.checkOAuth(k)
	case "AWS_MSK_IAM":
		if k.AWSRegion == "" {
			k.AWSRegion = l.values["AWS_REGION"]
		}
		if k.AWSRegion == "" {
			l.add("KUBECDC_KAFKA_AWS_REGION", "not set, and neither is AWS_REGION",
				"set it to the region of the MSK cluster, such as eu-west-1")
		}
	default:
		l.checkPassword(k)
	}
	if !strings.HasPrefix(k.SASLMechanism, "SCRAM") && !bool(k.TLS) {
		l.warn("KUBECDC_KAFKA_SASL_MECHANISM is " + k.SASLMechanism +
			" without KUBECDC_KAFKA_TLS: the password or token crosses the network in clear text")
	}
}

func (l *loader) checkPassword(k *Kafka) {
	const file = "KUBECDC_KAFKA_SASL_PASSWORD_FILE"
	if k.SASLUsername == "" {
		l.add("KUBECDC_KAFKA_SASL_USERNAME", "not set, but KUBECDC_KAFKA_SASL_MECHANISM is", "set it to the user to log in as")
	}
	switch {
	case k.SASLPassword == "" && k.SASLPasswordFile == "":
		l.add("KUBECDC_KAFKA_SASL_PASSWORD", "not set, but KUBECDC_KAFKA_SASL_MECHANISM is", "set it, or name a file in "+file)
	case k.SASLPassword != "" && k.SASLPasswordFile != "":
		l.add(file, "set together with KUBECDC_KAFKA_SASL_PASSWORD", "leave one of the two out")
	case k.SASLPasswordFile != "":
		l.checkPasswordFile(file, k.SASLPasswordFile)
	}
}

func (l *loader) checkOAuth(k *Kafka) {
	const file, endpoint = "KUBECDC_KAFKA_OAUTH_TOKEN_FILE", "KUBECDC_KAFKA_OAUTH_TOKEN_URL"
	switch {
	case k.OAuthTokenFile == "" && k.OAuthTokenURL == "":
		l.add(file, "not set, and neither is "+endpoint, "name the file of the token, or the token endpoint")
	case k.OAuthTokenFile != "" && k.OAuthTokenURL != "":
		l.add(file, "set together with "+endpoint, "leave one of the two out")
	case k.OAuthTokenFile != "":
		l.checkPasswordFile(file, k.OAuthTokenFile)
	default:
		l.checkTokenEndpoint(k)
	}
	if _, err := k.Extensions(); err != nil {
		l.add("KUBECDC_KAFKA_OAUTH_EXTENSIONS", err.Error(), "write NAME=VALUE, with letters only in a name, and commas between")
	}
}

func (l *loader) checkTokenEndpoint(k *Kafka) {
	const secret = "KUBECDC_KAFKA_OAUTH_CLIENT_SECRET_FILE"
	u, err := url.Parse(k.OAuthTokenURL)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http":
		l.add("KUBECDC_KAFKA_OAUTH_TOKEN_URL", "not the URL of a token endpoint", "write https://HOST/PATH, without a password")
	case u.Scheme == "http":
		l.warn("KUBECDC_KAFKA_OAUTH_TOKEN_URL has no https: the client secret and the tokens cross the network in clear text")
	}
	if k.OAuthClientID == "" {
		l.add("KUBECDC_KAFKA_OAUTH_CLIENT_ID", "not set, but KUBECDC_KAFKA_OAUTH_TOKEN_URL is",
			"set it to the client's id at the token endpoint")
	}
	if k.OAuthSecretFile == "" {
		l.add(secret, "not set, but KUBECDC_KAFKA_OAUTH_TOKEN_URL is", "name the file with the client's secret")
	} else {
		l.checkPasswordFile(secret, k.OAuthSecretFile)
	}
	if _, err := authorities(k.OAuthCA); err != nil {
		l.add("KUBECDC_KAFKA_OAUTH_CA", fileError(err), "name a PEM file that this user can read")
	}
}

var extension = regexp.MustCompile(`^([A-Za-z]+)=([\x20-\x7e]+)$`)

// Extensions returns the SASL extensions by their names (RFC 7628, 3.1).
func (k *Kafka) Extensions() (map[string]string, error) {
	found := map[string]string{}
	for _, e := range k.OAuthExtensions {
		match := extension.FindStringSubmatch(e)
		if match == nil || match[1] == "auth" {
			return nil, fmt.Errorf("%q is not NAME=VALUE", e)
		}
		found[match[1]] = match[2]
	}
	return found, nil
}
