package redact

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
)

// MinKey is how many bytes a key must have.
const MinKey = 16

// Key is what the hashes are made with. However it is formatted, it is not shown.
type Key []byte

// NewKey draws a key.
func NewKey() Key {
	k := make(Key, sha256.Size)
	_, _ = rand.Read(k) // never fails
	return k
}

func (k Key) String() string             { return "***" }
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("***")) }
func (k Key) LogValue() slog.Value       { return slog.StringValue("***") }

// id tells keys apart.
func (k Key) id() string { return hex.EncodeToString(mac(k, []byte("key")))[:16] }

// prefix of every hash.
const prefix = "hmac-sha256:"

// kind keeps the hashes of different kinds of values apart.
type kind string

const (
	kindValue     kind = "value"     // of a Secret, decoded; the same in data and in stringData
	kindText      kind = "text"      // a JSON string, decoded
	kindJSON      kind = "json"      // any other JSON, as it stands
	kindMalformed kind = "malformed" // no JSON
)

// sum is the hash of a value: HMAC-SHA256 over cluster, resource, object, the path in it, and the value, each after its
// length. So the same value is recognised in one place over time, and in no other place.
func (r *Redactor) sum(object string, path []string, k kind, value []byte) string {
	parts := [][]byte{[]byte(r.rules.Cluster), []byte(r.rules.Resource), []byte(object), []byte(k)}
	for _, name := range path {
		parts = append(parts, []byte(name))
	}
	return prefix + hex.EncodeToString(mac(r.rules.Key, append(parts, value)...))
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

// isHash reports whether text looks like what sum gives.
func isHash(text string) bool {
	if len(text) != len(prefix)+2*sha256.Size || text[:len(prefix)] != prefix {
		return false
	}
	for _, c := range text[len(prefix):] {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}
