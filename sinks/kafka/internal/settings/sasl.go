package settings

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// Login returns how connections log in, or nil for no login.
func (s SASL) Login() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "OAUTHBEARER":
		return &bearer{tokens: s.OAuth.tokens(), extensions: s.OAuth.Extensions}, nil
	case "AWS_MSK_IAM":
		return &bearer{tokens: mskTokens(s.AWSRegion)}, nil
	}
	m, err := s.mechanism(s.Password)
	if err != nil || m == nil || s.PasswordFile == "" {
		return m, err
	}
	return passwordFile{m, s}, nil
}

func (s SASL) mechanism(password string) (sasl.Mechanism, error) {
	switch strings.ToUpper(s.Mechanism) {
	case "":
		return nil, nil
	case "PLAIN":
		return plain.Mechanism{Username: s.Username, Password: password}, nil
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, s.Username, password)
	case "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, s.Username, password)
	}
	return nil, fmt.Errorf("mechanism %q is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM",
		s.Mechanism)
}

// passwordFile is a mechanism that reads the password at each login.
type passwordFile struct {
	sasl.Mechanism
	login SASL
}

// Start begins a login.
func (p passwordFile) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	password, err := readSecret(p.login.PasswordFile, "KUBECDC_KAFKA_SASL_PASSWORD_FILE")
	if err != nil {
		return nil, nil, err
	}
	m, err := p.login.mechanism(password)
	if err != nil {
		return nil, nil, &FileError{fmt.Errorf("use the password in KUBECDC_KAFKA_SASL_PASSWORD_FILE: %w", err)}
	}
	return m.Start(ctx)
}

// readSecret returns the content of a file in the settings, without line ends.
func readSecret(file, setting string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", &FileError{fmt.Errorf("read %s: %w", setting, err)}
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", &FileError{fmt.Errorf("read %s: the file is empty", setting)}
	}
	return secret, nil
}
