package redact

// node is a rule for a value and for what the value contains.
type node struct {
	do      action           // for the value as a whole
	named   map[string]*node // for the members of these names
	each    *node            // for every member and element
	rest    action           // for members that named lacks
	through bool             // if the value is an array, the node applies to each of its elements
	other   action           // for a value that is not an object, though the node has rules for members
}

type action int

const (
	keep       action = iota
	hashJSON          // replace by the hash of the value
	hashBase64        // replace by the hash of what it holds in base64
	hashText          // replace by the hash of its text
	drop              // leave the member out
)

// lastAppliedAnnotation:
// https://kubernetes.io/docs/reference/labels-annotations-taints/#kubectl-kubernetes-io-last-applied-configuration
const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

var (
	plain = &node{}

	lastApplied = &node{named: map[string]*node{"metadata": {named: map[string]*node{
		"annotations": {named: map[string]*node{lastAppliedAnnotation: {do: drop}}}}}}}

	// managedFields name an element of a list by the values of its keys, k:{"ip":"10.0.0.1"}, and an element of a set by its
	// value (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management). The entries still say who
	// changed something, and when.
	noOwnedFields = &node{named: map[string]*node{"metadata": {named: map[string]*node{
		"managedFields": {through: true, named: map[string]*node{"fieldsV1": {do: drop}}}}}}}

	noManagedFields = &node{named: map[string]*node{"metadata": {named: map[string]*node{"managedFields": {do: drop}}}}}

	// Fields that Kubernetes may add to Secrets are hidden too.
	secret = &node{rest: hashJSON, named: map[string]*node{
		"apiVersion": plain, "kind": plain, "metadata": plain, "type": plain, "immutable": plain,
		"data":       {other: hashJSON, each: &node{do: hashBase64}},
		"stringData": {other: hashJSON, each: &node{do: hashText}},
	}}

	metadataOnly = &node{rest: drop, named: map[string]*node{"apiVersion": plain, "kind": plain, "metadata": plain}}
)

// fields returns one tree of nodes for all paths, which does the same to each of their fields.
func fields(paths []Path, do action) *node {
	root := &node{}
	for _, p := range paths {
		n := root
		for _, s := range p.steps {
			n = n.child(s)
		}
		n.do = do
	}
	return root
}

func (n *node) child(s step) *node {
	if s.any {
		if n.each == nil {
			n.each = &node{through: true}
		}
		return n.each
	}
	if n.named == nil {
		n.named = map[string]*node{}
	}
	if n.named[s.name] == nil {
		n.named[s.name] = &node{through: true}
	}
	return n.named[s.name]
}
