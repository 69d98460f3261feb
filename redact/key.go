package redact

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"regexp"
)

const MinKey = 16

// Key is the HMAC key of the hashes. No format verb shows it.
type Key []byte

// NewKey returns a random key.
func NewKey() Key {
	k := make(Key, sha256.Size)
	_, _ = rand.Read(k) // never fails
	return k
}

func (k Key) String() string             { return "***" }
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("***")) }
func (k Key) LogValue() slog.Value       { return slog.StringValue("***") }

// id identifies the key without showing it.
func (k Key) id() string { return hex.EncodeToString(mac(k, []byte("key")))[:16] }

// Name returns the hash of a name of some kind, such as a user's: equal names have equal hashes.
func (k Key) Name(kind, name string) string {
	return HashPrefix + hex.EncodeToString(mac(k, []byte("name"), []byte(kind), []byte(name)))
}

// HashPrefix is how every hash starts.
const HashPrefix = "hmac-sha256:"

// HashText is a hash as JSON.
var HashText = regexp.MustCompile(`"` + HashPrefix + `[0-9a-f]{64}"`)

// kind separates the hashes of different kinds of values.
type kind string

const (
	kindValue     kind = "value"     // a Secret's value, decoded, so it is the same in data and in stringData
	kindText      kind = "text"      // a JSON string, decoded
	kindJSON      kind = "json"      // any other JSON, as it stands
	kindMalformed kind = "malformed" // text that is not JSON
)

// sum returns the hash of a value: HMAC-SHA256 over cluster, resource, object, the path in it, and the value, each after its
// length. So consumers can tell whether a value changed in its place, but not whether two places have the same value.
func (r *Redactor) sum(object string, path []string, k kind, value []byte) string {
	parts := [][]byte{[]byte(r.rules.Cluster), []byte(r.rules.Resource), []byte(object), []byte(k)}
	for _, name := range path {
		parts = append(parts, []byte(name))
	}
	return HashPrefix + hex.EncodeToString(mac(r.rules.Key, append(parts, value)...))
}

func mac(key Key, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	var length [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write(p)
	}
	return h.Sum(nil)
}

// isHash reports whether text has the form of a hash that sum returns.
func isHash(text string) bool {
	if len(text) != len(HashPrefix)+2*sha256.Size || text[:len(HashPrefix)] != HashPrefix {
		return false
	}
	for _, c := range text[len(HashPrefix):] {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}
