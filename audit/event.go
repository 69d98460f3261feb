package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// event has what is read of an audit.k8s.io/v1 Event. Bodies are not decoded.
type event struct {
	AuditID                  string
	Stage                    string
	RequestURI               string
	Verb                     string
	User, ImpersonatedUser   requester
	SourceIPs                []string
	UserAgent                string
	ObjectRef                reference
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
	StageTimestamp           time.Time
	Annotations              map[string]string

	request    []byte // the raw object that was sent, at levels that have it
	response   []byte // the raw object of the answer
	terse      bool   // it lacks the request's parameters
	query      url.Values
	annotation annotation
}

type requester struct {
	Username string
	Groups   []string
	Extra    map[string][]string
}

type reference struct {
	Resource, Namespace, Name, UID, APIGroup, ResourceVersion, Subresource string
}

type verdict int

const (
	wanted verdict = iota
	skipped
	broken
)

// read decodes the members that are needed. It returns as soon as it sees that the event changed nothing. Most events are of
// requests that read.
func (e *event) read(raw []byte) verdict {
	c := rawjson.NewCursor(raw)
	c.Enter()
	for name, more := c.Member(); more; name, more = c.Member() {
		value := c.Skip()
		into := e.member(string(name))
		switch {
		case into != nil:
		case string(name) == "protoPayload":
			if !e.readEntry(raw) {
				return broken
			}
			return e.verdict()
		case string(name) == "requestObject":
			e.request = value
			continue
		case string(name) == "responseObject":
			e.response = value
			continue
		default:
			continue
		}
		text, isText := into.(*string)
		if isText {
			*text, isText = rawjson.Text(value) // as most are
		}
		if !isText && json.Unmarshal(value, into) != nil {
			return broken
		}
		if e.skipped() {
			return skipped
		}
	}
	return e.verdict()
}

// skipped reports whether the members read so far show that the request is not over, or did not write.
func (e *event) skipped() bool {
	return e.Stage != "" && e.Stage != "ResponseComplete" && e.Stage != "Panic" || e.Verb != "" && !slices.Contains(verbs, e.Verb)
}

func (e *event) verdict() verdict {
	switch {
	case e.skipped():
		return skipped
	case e.AuditID == "" || e.Stage == "" || e.Verb == "" || e.RequestReceivedTimestamp.IsZero():
		return broken
	case e.ObjectRef.Resource == "" || !e.stores():
		return skipped
	}
	_, query, _ := strings.Cut(e.RequestURI, "?")
	e.query, _ = url.ParseQuery(query) // what can be read of it
	e.annotation = e.readAnnotations()
	if e.resource() == "namespaces" {
		e.ObjectRef.Namespace = "" // an event says that a namespace is in itself
	}
	return wanted
}

// verbs are the verbs of writes.
var verbs = []string{"create", "update", "patch", "delete", "deletecollection"}

func (e *event) member(name string) any {
	switch name {
	case "auditID":
		return &e.AuditID
	case "stage":
		return &e.Stage
	case "requestURI":
		return &e.RequestURI
	case "verb":
		return &e.Verb
	case "user":
		return &e.User
	case "impersonatedUser":
		return &e.ImpersonatedUser
	case "sourceIPs":
		return &e.SourceIPs
	case "userAgent":
		return &e.UserAgent
	case "objectRef":
		return &e.ObjectRef
	case "responseStatus":
		return &e.ResponseStatus
	case "requestReceivedTimestamp":
		return &e.RequestReceivedTimestamp
	case "stageTimestamp":
		return &e.StageTimestamp
	case "annotations":
		return &e.Annotations
	}
	return nil
}

// stores reports whether the API server stores what such requests send. Connections to Pods, Nodes and Services, tokens, and
// questions about rights are created too, and nothing is left of them.
func (e *event) stores() bool {
	switch e.ObjectRef.Subresource {
	case "exec", "attach", "portforward", "proxy", "token":
		return false
	}
	return e.ObjectRef.APIGroup != "authorization.k8s.io" && e.ObjectRef.APIGroup != "authentication.k8s.io"
}

func (e *event) resource() string {
	return change.Resource{Group: e.ObjectRef.APIGroup, Plural: e.ObjectRef.Resource}.ID()
}

// dryRun: of deletions and evictions it is asked for in a body, too, which the policy sees, and which events of level Request
// have.
func (e *event) dryRun() bool {
	options := e.request
	switch {
	case e.ObjectRef.Subresource == "eviction":
		options = rawjson.Member(e.request, "deleteOptions")
	case e.Verb != "delete" && e.Verb != "deletecollection":
		options = nil
	}
	return slices.Contains(e.query["dryRun"], "All") || e.annotation.how == "dry" ||
		bytes.Contains(rawjson.Member(options, "dryRun"), []byte(`"All"`))
}

// requester returns the user whose rights the request used: the impersonated user, if there is one.
func (e *event) requester() *requester {
	if e.ImpersonatedUser.Username != "" {
		return &e.ImpersonatedUser
	}
	return &e.User
}

func (e *event) record() Record {
	ref := &e.ObjectRef
	r := Record{ID: e.id(), AuditID: short(e.AuditID), Time: e.RequestReceivedTimestamp.UTC(), Answered: e.StageTimestamp.UTC(),
		Resource: short(e.resource()), Namespace: short(ref.Namespace), Name: short(ref.Name), Verb: e.Verb,
		Subresource: short(ref.Subresource),
		Code:        e.ResponseStatus.Code, Manager: short(e.query.Get("fieldManager")), User: short(e.User.Username),
		Groups: shortAll(e.requester().Groups), Impersonated: short(e.ImpersonatedUser.Username), UserAgent: short(e.UserAgent),
		Addresses: shortAll(e.SourceIPs)}
	if e.dryRun() {
		r.Effect = Nothing
	}
	if e.Verb == "deletecollection" {
		r.Labels, r.Fields = short(e.query.Get("labelSelector")), short(e.query.Get("fieldSelector"))
		return r // what it tells of an object is of one of several
	}
	e.object(&r)
	return r
}

// object sets which object it was, and its versions.
func (e *event) object(r *Record) {
	ref := &e.ObjectRef
	if e.Verb != "create" {
		r.UID = short(ref.UID) // for a create it is what the client sent
	}
	if e.Verb == "update" && r.Succeeded() && ref.ResourceVersion != "0" {
		r.VersionBefore = version(ref.ResourceVersion) // the one that the client insists on
	}
	switch {
	case e.annotation.finds():
		e.found(r)
	case e.annotation.how == "new" && r.Subresource == "":
		r.UID, r.Created, r.VersionBefore = e.annotation.uid, true, ""
		r.Name = cmp.Or(r.Name, short(e.annotation.rest))
	case e.annotation.how == "new":
		r.UID = e.annotation.uid // the uid of the object that a Binding is for
	case r.Verb == "create" && r.Subresource == "" || r.Code == 201 && r.Verb != "create":
		r.Created, r.VersionBefore = true, ""
	}
	undecided := e.terse && e.Verb == "delete" && e.annotation.how == "" // it may have been a dry run
	if r.Succeeded() && e.response != nil && !undecided && r.Subresource != "binding" && r.Subresource != "eviction" {
		e.answered(r)
	}
}

// found reads what the policy tells of the object that the last attempt found.
func (e *event) found(r *Record) {
	n := &e.annotation
	r.UID, r.VersionBefore, r.Retried = n.uid, version(n.rest), n.versions > 1
	switch {
	case r.Effect != "":
	case n.how == "old", n.how == "end":
		r.Effect = Wrote
	case (r.Verb == "update" || r.Verb == "patch") && r.Subresource != "scale":
		r.Effect = Idle
	}
	if n.how == "end" && n.versions == 2 {
		r.VersionBegan, r.Retried = version(n.former), false
	}
}

// answered reads what a server's answer tells, at the level RequestResponse.
func (e *event) answered(r *Record) {
	metadata := rawjson.Member(e.response, "metadata")
	if uid := text(metadata, "uid"); uid != "" {
		r.UID, r.VersionAfter = uid, version(text(metadata, "resourceVersion"))
		r.Name = cmp.Or(r.Name, text(metadata, "name"))
	} else if uid := text(rawjson.Member(e.response, "details"), "uid"); uid != "" && r.Verb == "delete" {
		r.UID = uid // a Status names the object so
	}
}

func text(object []byte, member string) string {
	text, _ := rawjson.Text(rawjson.Member(object, member))
	return short(text)
}

// Annotation is the prefix of the policy's annotation keys, after the policy's name and a slash. The policy uses as many
// annotations as it may have, since the API server retains only the first value of each. If the API server tries a write again on
// a newer version, that version has another remainder by one of the moduli. So the second try has another annotation.
const Annotation = "kubecdc-object"

// Moduli have no common divisor: two versions have the same remainders by all of them in one case of 420. No other moduli of the
// same sum make that rarer.
var Moduli = []int{3, 4, 5, 7}

// Alike reports whether two versions have the same remainders. If a request was tried on both, the policy then records only the
// first.
func Alike(a, b change.ResourceVersion) bool { return remainder(a) == remainder(b) }

// remainder is that by the product of all moduli.
func remainder(v change.ResourceVersion) (n int) {
	product := 1
	for _, m := range Moduli {
		product *= m
	}
	for _, digit := range []byte(v) {
		n = (10*n + int(digit-'0')) % product
	}
	return n
}

// annotation is what the policy says: "UID old VERSION" if the object becomes another one, or "UID end VERSION" if it is deleted
// at once, without a grace period. "UID maybe VERSION" says that neither is certain. The other forms are "UID new NAME" and "UID
// dry".
type annotation struct {
	uid, how, rest string
	versions       int    // that the attempts found
	former         string // the newest version but one
}

// finds reports whether there was an object before.
func (n *annotation) finds() bool { return n.how == "old" || n.how == "end" || n.how == "maybe" }

// readAnnotations returns what the policy has said of the last attempt, which saw the newest version. It returns nothing if one
// attempt found an object and another one did not.
func (e *event) readAnnotations() annotation {
	var all []annotation
	for key, value := range e.Annotations {
		if _, name, _ := strings.Cut(key, "/"); !strings.HasPrefix(name, Annotation) {
			continue
		}
		uid, rest, _ := strings.Cut(value, " ")
		how, rest, _ := strings.Cut(rest, " ")
		next := annotation{uid: short(uid), how: how, rest: rest}
		if len(all) > 0 && all[0].finds() != next.finds() {
			return annotation{}
		}
		if !slices.Contains(all, next) {
			all = append(all, next)
		}
	}
	if len(all) == 0 {
		return annotation{}
	}
	slices.SortFunc(all, func(a, b annotation) int {
		return change.ResourceVersion(a.rest).Compare(change.ResourceVersion(b.rest))
	})
	last := all[len(all)-1]
	if last.versions = len(all); last.versions > 1 {
		last.former = all[len(all)-2].rest
	}
	return last
}

// id distinguishes an event from all others, and is the same each time that it comes. The audit id alone is not enough. A client
// may choose it, and use it again so that a later request goes unseen. An aggregated server reports a request by the same one.
// The id begins with the time, so that events that come together are neighbours in an index.
func (e *event) id() string {
	h := sha256.New()
	for _, part := range []string{e.AuditID, e.Stage, e.Verb, e.RequestURI, e.User.Username,
		e.RequestReceivedTimestamp.UTC().Format(time.RFC3339Nano), e.StageTimestamp.UTC().Format(time.RFC3339Nano),
		e.ObjectRef.Name, e.annotation.uid, e.annotation.rest} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	id := binary.BigEndian.AppendUint64(nil, uint64(e.RequestReceivedTimestamp.UnixMilli()))
	return hex.EncodeToString(h.Sum(id[2:])[:16])
}

func version(text string) change.ResourceVersion {
	if v := change.ResourceVersion(text); v.Valid() && len(v) <= longest {
		return v
	}
	return ""
}

// Clients choose most of the texts, so these are bounded.
const (
	longest = 1024
	most    = 200
)

func short(text string) string {
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func shortAll(texts []string) []string {
	texts = slices.Clone(texts[:min(len(texts), most)])
	for i := range texts {
		texts[i] = short(texts[i])
	}
	return texts
}
