package change

import "fmt"

// Proof is the result of a comparison of a stream's live objects, as they were last emitted, with the API server's at the same
// resourceVersion.
type Proof struct {
	Result  ProofResult `json:"result"`
	Objects int         `json:"objects"`         // live objects in the log
	Digest  string      `json:"digest"`          // see Digest
	Cause   string      `json:"cause,omitempty"` // unsupported: why
	// Masked says that updates may be left out of the log. Then the log may have an older version of an object than Digest
	// counts. Older is the number of objects that the exporter itself knows in an older version, which can happen after a crash.
	// Such an object is no difference.
	Masked bool `json:"masked,omitempty"`
	Older  int  `json:"older,omitempty"`
	// different:
	Missing   Differing `json:"missing,omitzero"` // the API server has it, the log does not
	Stale     Differing `json:"stale,omitzero"`   // the log has it in another version, or another object under its key
	Extra     Differing `json:"extra,omitzero"`   // the log has it, the API server does not
	ElapsedMs int64     `json:"elapsed_ms,omitempty"`
}

// ProofResult is the result of a proof.
type ProofResult string

const (
	ProofEqual       ProofResult = "equal"
	ProofDifferent   ProofResult = "different"
	ProofUnsupported ProofResult = "unsupported" // the API server can't be asked for the state at a resourceVersion
)

// Differing counts objects that differ, and has the keys of some of them.
type Differing struct {
	Objects int      `json:"objects"`
	Keys    []string `json:"keys"`
}

// mostKeys bounds the keys of a Differing.
const mostKeys = 20

// Add counts an object.
func (d *Differing) Add(key string) {
	if d.Objects++; len(d.Keys) < mostKeys {
		d.Keys = append(d.Keys, key)
	}
}

// Differences returns how many objects differ.
func (p *Proof) Differences() int { return p.Missing.Objects + p.Stale.Objects + p.Extra.Objects }

// String says how many objects differ, of each kind.
func (p *Proof) String() string {
	return fmt.Sprintf("%d missing, %d stale, %d extra", p.Missing.Objects, p.Stale.Objects, p.Extra.Objects)
}
