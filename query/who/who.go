// Package who finds who made a change, by the log's audit records, and which deletion another one followed. It says how certain
// each answer is. It knows no state of a moment.
package who

import (
	"slices"
	"strings"

	"kubecdc/audit"
	"kubecdc/change"
)

// Grade is how certain it is who made a change.
type Grade string

// The grades.
const (
	Exact    Grade = "exact"    // one request is known to have written this version
	OneOf    Grade = "one of"   // several requests match
	Probable Grade = "probable" // one requester matches, by weaker evidence: time, name, selector, or the deletion of an owner
	Manager  Grade = "manager"  // no request matches, but managedFields names programs
	Unknown  Grade = "unknown"  // no evidence
)

// Who is who made a change, by the audit records.
type Who struct {
	Grade Grade `json:"grade"`
	// User owns the credentials of the request, or is empty if several users match. Impersonated is the user that User
	// impersonated.
	User         string `json:"user,omitempty"`
	Impersonated string `json:"impersonated,omitempty"`
	// for the grade "one of": all that match, "bob as alice" if one acted as another
	Users       []string `json:"users,omitempty"`
	AuditIDs    []string `json:"auditIDs,omitempty"`
	Verb        string   `json:"verb,omitempty"`
	Subresource string   `json:"subresource,omitempty"`
	UserAgent   string   `json:"userAgent,omitempty"`
	Because     *Because `json:"because,omitempty"` // for a deletion that followed another one
	AskedBy     *Who     `json:"askedBy,omitempty"` // who requested the deletion, if another request completed it (finalizers)

	names []string // each user, and each impersonated user
}

// Because is the deletion that began a cascade, and who requested it.
type Because struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	By        *Who   `json:"by"`
}

// Is reports whether a user made the change, may have made it, or began the cascade that led to it.
func (w *Who) Is(user string) bool {
	return w != nil && (slices.Contains(w.names, user) || w.AskedBy.Is(user) || w.Because != nil && w.Because.By.Is(user))
}

// Certain returns the user if only one matches, else "".
func (w *Who) Certain() string {
	if w == nil {
		return ""
	}
	return w.User
}

// Text returns who made a change, with the managers that the object names.
func (w *Who) Text(managers []string) (text string) {
	programs := strings.Join(managers, ", ")
	if w == nil {
		return programs
	}
	switch w.Grade {
	case OneOf:
		text = strings.Join(w.Users, " or ")
	case Probable:
		text = "probably " + w.name()
	case Exact:
		text = w.name()
	default:
		text = "somebody unknown"
	}
	if programs != "" {
		text += " (" + programs + ")"
	}
	if w.AskedBy != nil {
		text += ", asked by " + w.AskedBy.Text(nil)
	}
	return text
}

func (w *Who) name() string { return nameOf(w.User, w.Impersonated) }

func nameOf(user, impersonated string) string {
	if impersonated == "" {
		return user
	}
	return user + " as " + impersonated
}

// String names the deletion that began the cascade.
func (b *Because) String() string {
	return "because of " + b.Resource + " " + change.ObjectKey(b.Namespace, b.Name) + ", deleted by " + b.By.Text(nil)
}

// whoOf returns who made the requests. It has the grade if one user, acting as one, made them all. Otherwise its grade is OneOf.
func whoOf(requests []*audit.Record, grade Grade) *Who {
	w := &Who{Grade: grade}
	for _, r := range requests {
		if name := nameOf(r.User, r.Impersonated); !slices.Contains(w.Users, name) {
			w.Users = append(w.Users, name)
		}
		for _, name := range []string{r.User, r.Impersonated} {
			if name != "" && !slices.Contains(w.names, name) {
				w.names = append(w.names, name)
			}
		}
		if !slices.Contains(w.AuditIDs, r.AuditID) {
			w.AuditIDs = append(w.AuditIDs, r.AuditID)
		}
	}
	slices.Sort(w.Users)
	if len(w.Users) > 1 {
		w.Grade = OneOf
		return w
	}
	first := requests[0]
	w.User, w.Impersonated, w.Users = first.User, first.Impersonated, nil
	w.Verb, w.Subresource, w.UserAgent = first.Verb, first.Subresource, first.UserAgent
	return w
}
