// Package registry is a client of a schema registry with Confluent's API (Confluent's own, Apicurio's, Karapace). It knows
// nothing of the content of schemas.
package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

// Options are the registry's address and credentials. Only URLs are required.
type Options struct {
	URLs         []string // tried one after another
	Username     string
	Password     string
	PasswordFile string                      // replaces Password, and is read for each request, so that it may be renewed
	TLS          func() (*tls.Config, error) // called for each connection, so that files may be renewed, or nil
}

// Registry is a client. It is safe for concurrent use.
type Registry struct {
	client *sr.Client
	urls   string
	hide   *strings.Replacer // hides what may be a password in the URLs: user and query
}

// requestTimeout is how long to wait for an answer.
const requestTimeout = 10 * time.Second

// New returns a client. It does not connect.
func New(o Options) (*Registry, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.TLS != nil {
		transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			config, err := o.TLS()
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
		}
	}
	client, err := sr.NewClient(sr.URLs(o.URLs...), sr.UserAgent("kubecdc"), sr.PreReq(o.logIn),
		sr.HTTPClient(&http.Client{Transport: transport, Timeout: requestTimeout}))
	return &Registry{client, strings.Join(o.URLs, ","), hiding(o.URLs)}, err
}

func hiding(urls []string) *strings.Replacer {
	var pairs []string
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		if u.RawQuery != "" {
			pairs = append(pairs, "?"+u.RawQuery, "?***")
		}
		if u.User != nil {
			pairs = append(pairs, u.User.String()+"@", "***@")
		}
	}
	return strings.NewReplacer(pairs...)
}

func (o *Options) logIn(r *http.Request) error {
	if o.Username == "" {
		return nil
	}
	password := o.Password
	if o.PasswordFile != "" {
		text, err := os.ReadFile(o.PasswordFile)
		if err != nil {
			return fmt.Errorf("read KUBECDC_SCHEMA_REGISTRY_PASSWORD_FILE: %w", err)
		}
		password = strings.TrimRight(string(text), "\r\n")
	}
	r.SetBasicAuth(o.Username, password)
	return nil
}

// Latest returns a subject's latest schema. The text is empty if it has none.
func (r *Registry) Latest(ctx context.Context, subject string) (id int, text string, err error) {
	found, err := r.client.SchemaByVersion(ctx, subject, -1)
	if statusOf(err) == http.StatusNotFound {
		return 0, "", nil
	}
	return found.ID, found.Schema.Schema, r.error("read the latest schema of the subject "+subject, err)
}

// Register adds a version to a subject, and returns the id of its schema. A subject that already has the schema is not changed.
// Then the right to read it is enough.
func (r *Registry) Register(ctx context.Context, subject, text string) (id int, err error) {
	if found, err := r.client.LookupSchema(ctx, subject, sr.Schema{Schema: text}); err == nil {
		return found.ID, nil
	}
	id, err = r.client.RegisterSchema(ctx, subject, sr.Schema{Schema: text}, -1, -1)
	return id, r.error("register a schema for the subject "+subject, err)
}

// ByID returns the schema of an id.
func (r *Registry) ByID(ctx context.Context, id int) (text string, err error) {
	found, err := r.client.SchemaByID(ctx, id)
	return found.Schema, r.error(fmt.Sprintf("read schema %d", id), err)
}

// Check returns an error if the registry does not answer, or would refuse the schema for the subject.
func (r *Registry) Check(ctx context.Context, subject, text string) error {
	const op = "check the schema of the subject "
	result, err := r.client.CheckCompatibility(ctx, subject, -1, sr.Schema{Schema: text})
	switch {
	case statusOf(err) == http.StatusNotFound: // the subject is new
		_, err = r.client.Subjects(ctx)
	case err == nil && !result.Is:
		err = &sr.ResponseError{StatusCode: http.StatusConflict, Message: strings.Join(result.Messages, "; ")}
	}
	return r.error(op+subject, err)
}

// Error is a request that failed.
type Error struct {
	Op, Server string
	Err        error
	hide       *strings.Replacer
}

func (e *Error) Error() string {
	return e.hide.Replace(fmt.Sprintf("%s in the schema registry %s: %v (%s)", e.Op, e.Server, e.Err, e.hint()))
}

func (e *Error) Unwrap() error { return e.Err }

// Refused reports whether the registry answered, and will give the same answer until somebody changes the registry.
func Refused(err error) bool {
	switch statusOf(err) {
	case http.StatusConflict, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// Answered reports whether the registry answered that the request is wrong.
func Answered(err error) bool { return statusOf(err)/100 == 4 }

// hint returns what the user can do.
func (e *Error) hint() string {
	switch status := statusOf(e.Err); {
	case status == http.StatusConflict, status == http.StatusUnprocessableEntity:
		return "the schemas of kubecdc only grow, which BACKWARD, FORWARD and FULL allow: delete the subject if its versions " +
			"are somebody " +
			"else's, or use another KUBECDC_KAFKA_TOPIC_PREFIX"
	case status == http.StatusUnauthorized:
		return "check KUBECDC_SCHEMA_REGISTRY_USERNAME and its password"
	case status == http.StatusForbidden:
		return "grant the user to read and write the subjects PREFIX.*"
	case status == http.StatusNotFound:
		return "check the path in KUBECDC_SCHEMA_REGISTRY_URL (Apicurio: /apis/ccompat/v7), and whether the registry has lost " +
			"its schemas"
	case status != 0:
		return "look into the registry's log"
	}
	return "check that the registry runs, and KUBECDC_SCHEMA_REGISTRY_URL and _CA"
}

func (r *Registry) error(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{op, r.urls, err, r.hide}
}

// statusOf returns the HTTP status of an answer, or 0 if there was none.
func statusOf(err error) int {
	if answer, ok := errors.AsType[*sr.ResponseError](err); ok {
		return answer.StatusCode
	}
	return 0
}
