package redact

// node says what becomes of a value and of what is in it.
type node struct {
	do      action           // with the value as a whole
	named   map[string]*node // members
	each    *node            // every member and element
	rest    action           // with members that named lacks
	through bool             // a list in its place is passed through: it is meant for each of the elements
	other   action           // with a value that is no object, where members are to be looked into
}

type action int

const (
	keep       action = iota
	hashJSON          // replace by the hash of the value
	hashBase64        // of what it holds in base64
	hashText          // of its text
	drop              // leave the member out
)

// lastAppliedAnnotation: https://kubernetes.io/docs/reference/labels-annotations-taints/#kubectl-kubernetes-io-last-applied-configuration
const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

var (
	kept = &node{}

	lastApplied = &node{named: map[string]*node{"metadata": {named: map[string]*node{
		"annotations": {named: map[string]*node{lastAppliedAnnotation: {do: drop}}}}}}}

	// What is not known of a Secret is hidden too.
	secret = &node{rest: hashJSON, named: map[string]*node{
		"apiVersion": kept, "kind": kept, "metadata": kept, "type": kept, "immutable": kept,
		"data":       {other: hashJSON, each: &node{do: hashBase64}},
		"stringData": {other: hashJSON, each: &node{do: hashText}},
	}}

	metadataOnly = &node{rest: drop, named: map[string]*node{"apiVersion": kept, "kind": kept, "metadata": kept}}
)

// fields joins paths into one tree.
func fields(paths []Path) *node {
	root := &node{}
	for _, p := range paths {
		at := root
		for _, s := range p.steps {
			at = at.child(s)
		}
		at.do = hashJSON
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
