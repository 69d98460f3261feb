package change

import (
	"math/big"
	"testing"
)

// Versions are compared as numbers of any length. Any other text that a server sends has an order too, so that nothing depends on the
// order of the questions.
func TestVersionsAreOrdered(t *testing.T) {
	all := []ResourceVersion{"", "0", "00", "1", "01", "9", "10", "99", "100", "18446744073709551615", "18446744073709551616",
		"99999999999999999999999", "000000000000000000000000000000100", "a", "1a", "-1", "+1", "1.0", "1 ", "é", "9223372036854775807"}
	for _, v := range all {
		n, isNumber := new(big.Int).SetString(string(v), 10)
		digits := isNumber && v[0] != '-' && v[0] != '+'
		if v.Valid() != (digits && n.Sign() > 0) {
			t.Errorf("%q is valid: %t", v, v.Valid())
		}
		revision, err := v.Revision()
		if (err == nil) != (digits && n.IsUint64()) || err == nil && revision != n.Uint64() {
			t.Errorf("%q is revision %d, %v", v, revision, err)
		}
		for _, other := range all {
			m, otherIsNumber := new(big.Int).SetString(string(other), 10)
			if v.Compare(other) != -other.Compare(v) {
				t.Errorf("%q and %q: %d and %d", v, other, v.Compare(other), other.Compare(v))
			}
			if digits && otherIsNumber && other[0] != '-' && other[0] != '+' && v.Compare(other) != n.Cmp(m) {
				t.Errorf("%q and %q: %d, want %d", v, other, v.Compare(other), n.Cmp(m))
			}
			if v == "" && other.Valid() && v.Compare(other) >= 0 {
				t.Errorf("no version is not older than %q", other)
			}
			for _, third := range all {
				if v.Compare(other) <= 0 && other.Compare(third) <= 0 && v.Compare(third) > 0 {
					t.Errorf("%q, %q, %q have no order", v, other, third)
				}
			}
		}
	}
}
