// Package audit takes the API server's audit events in, so that a change can be joined to the request that made it: who it was.
// An event becomes a Record, which a sink stores in the log with the changes (sinks.AuditLog). Both are joined when they are read
// (query/).
package audit

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"kubecdc/change"
)

// Record is a request that could have changed an object, as its audit event tells of it. It never has a body. Its JSON leaves out
// what is empty, so that a sink can store a record in parts.
type Record struct {
	Cluster string `json:"-"` // set by sinks.Copier
	// tells the event from all others, and is the same each time that it comes: 32 hex digits, 12 of them its time
	ID       string    `json:"id,omitempty"`
	AuditID  string    `json:"auditID,omitempty"` // the request's id. A client may choose it, and use it again
	Time     time.Time `json:"time,omitzero"`     // when the API server received the request
	Answered time.Time `json:"answered,omitzero"` // when it answered
	Received time.Time `json:"received,omitzero"` // when the exporter got the event

	Resource  string `json:"resource,omitempty"` // the id: deployments.apps
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"` // empty: of a deletecollection, or a create with generateName without the policy
	UID       string `json:"uid,omitempty"`  // empty: the event does not tell
	// VersionBefore is the object's resourceVersion before the request, which the policy of docs/who.md puts into the event.
	// Created says that there was no object before. VersionAfter is the resulting version, which only events of level
	// RequestResponse have.
	VersionBefore change.ResourceVersion `json:"versionBefore,omitempty"`
	Created       bool                   `json:"created,omitempty"`
	VersionAfter  change.ResourceVersion `json:"versionAfter,omitempty"`
	// VersionBegan belongs to a deletion in two steps, such as a Pod's without a grace period. The deletion found VersionBegan,
	// made VersionBefore of it (with a grace period of 0 seconds), and removed that.
	VersionBegan change.ResourceVersion `json:"versionBegan,omitempty"`
	// Retried says that the API server has tried the write several times. Except in rare cases, VersionBefore is from the last
	// attempt.
	Retried bool   `json:"retried,omitempty"`
	Effect  Effect `json:"effect,omitempty"`

	Verb        string `json:"verb,omitempty"` // create, update, patch, delete, deletecollection
	Subresource string `json:"subresource,omitempty"`
	Code        int    `json:"code,omitempty"`    // the HTTP status of the answer
	Manager     string `json:"manager,omitempty"` // the request's fieldManager
	Labels      string `json:"labels,omitempty"`  // the label selector of a deletecollection
	Fields      string `json:"fields,omitempty"`  // the field selector of a deletecollection

	User         string              `json:"user,omitempty"`
	Groups       []string            `json:"groups,omitempty"`
	Impersonated string              `json:"impersonatedUser,omitempty"` // the user that User impersonated
	Extra        map[string][]string `json:"extra,omitempty"`
	UserAgent    string              `json:"userAgent,omitempty"`
	Addresses    []string            `json:"sourceIPs,omitempty"`
}

// Effect is the effect of a request on its object, as the policy saw it.
type Effect string

// The effects. An empty effect is unknown.
const (
	Wrote   Effect = "wrote"   // its success is a new version
	Idle    Effect = "idle"    // the object did not change: a success is a new version only if it is stored in another form
	Nothing Effect = "nothing" // a dry run
)

// ID is a Record's ID in few bytes.
type ID [16]byte

// Key is the record's ID.
func (r *Record) Key() (id ID, err error) {
	if len(r.ID) != 2*len(id) {
		return id, fmt.Errorf("the id of an audit record is %q, and must have %d hex digits", r.ID, 2*len(id))
	}
	_, err = hex.Decode(id[:], []byte(r.ID))
	return id, err
}

// Who returns the impersonated user of the request, or else its user.
func (r *Record) Who() string {
	if r.Impersonated != "" {
		return r.Impersonated
	}
	return r.User
}

// Succeeded reports whether the API server did what was asked.
func (r *Record) Succeeded() bool { return r.Code >= 200 && r.Code < 300 }

// Query selects records. An empty field selects all.
type Query struct {
	Resources []string
	Namespace string
	Name      string    // with one, records without a name are selected too
	Since     time.Time // when the first event of Received came
}

// Time is when the API server received the request, to the millisecond.
func (id ID) Time() time.Time {
	var ms [8]byte
	copy(ms[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(ms[:]))).UTC()
}

// Coverage is the time from the first to the last request whose event is in the log. Events of that time may still arrive.
type Coverage struct {
	Since time.Time // when the API server received the first request, or zero if there is none
	Last  time.Time // when it received the last one
}

// Add extends the coverage to an event.
func (c *Coverage) Add(id ID) {
	received := id.Time()
	if c.Since.IsZero() || received.Before(c.Since) {
		c.Since = received
	}
	if received.After(c.Last) {
		c.Last = received
	}
}
