//go:build !invariants

package invariant

// Verified: this build does not.
const Verified = false
