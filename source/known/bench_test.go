package known

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
)

// textMap and packedMap are alternatives to a Set: Go maps that hold uid and version as text, or packed as in a Set.
type (
	textMap   map[string]textEntry
	textEntry struct {
		Object
		_ uint32 // the last pass that listed it
	}
	packedMap   map[string]packedEntry
	packedEntry struct {
		uid     [16]byte
		version uint64
		_       uint32
		odd     bool
	}
)

func (m textMap) Put(key, uid string, version change.ResourceVersion) {
	m[key] = textEntry{Object: Object{UID: uid, Version: version}}
}

func (m textMap) Compare(key, uid string, version change.ResourceVersion) Difference {
	e, found := m[key]
	if !found {
		return Absent
	}
	return differenceOf(e.UID == uid, version.Compare(e.Version))
}

func (m packedMap) Put(key, uid string, version change.ResourceVersion) {
	if _, found := m[key]; !found {
		key = strings.Clone(key) // else the map would hold all that the key is a part of
	}
	var e packedEntry
	e.odd = !packUUID(uid, &e.uid)
	e.version, _ = strconv.ParseUint(string(version), 10, 64)
	m[key] = e
}

func (m packedMap) Compare(key, uid string, version change.ResourceVersion) Difference {
	e, found := m[key]
	if !found {
		return Absent
	}
	var packed [16]byte
	v, _ := strconv.ParseUint(string(version), 10, 64)
	if packUUID(uid, &packed) && packed == e.uid && v > e.version {
		return Newer
	}
	return Older
}

// BenchmarkSet measures how many bytes an object takes, and how long Put and Compare take, in a Set and in both maps.
func BenchmarkSet(b *testing.B) {
	type set interface {
		Put(key, uid string, version change.ResourceVersion)
		Compare(key, uid string, version change.ResourceVersion) Difference
	}
	for _, n := range []int{100, 100_000, 1_000_000} {
		for name, empty := range map[string]func() set{
			"set":        func() set { return New() },
			"text-map":   func() set { return textMap{} },
			"packed-map": func() set { return packedMap{} },
		} {
			b.Run(fmt.Sprintf("objects=%d/%s", n, name), func(b *testing.B) {
				var put, compare time.Duration
				before, sets := heap(), []set{}
				for b.Loop() {
					s, objects := empty(), makeObjects(n)
					start := time.Now()
					for _, o := range objects {
						s.Put(o[0], o[1], change.ResourceVersion(o[2]))
					}
					put += time.Since(start)
					objects = makeObjects(n)
					rand.Shuffle(n, func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
					start = time.Now()
					for _, o := range objects {
						if s.Compare(o[0], o[1], "9999999") != Newer {
							b.Fatal("not newer")
						}
					}
					compare += time.Since(start)
					sets = append(sets, s)
				}
				objects := float64(n * b.N)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(put.Nanoseconds())/objects, "ns/Put")
				b.ReportMetric(float64(compare.Nanoseconds())/objects, "ns/Compare")
				b.ReportMetric(float64(heap()-before)/objects, "B/object")
				runtime.KeepAlive(sets)
			})
		}
	}
}

// makeObjects makes key, uid and version of Pods, as parts of one string each, as they come out of an event.
func makeObjects(n int) [][3]string {
	objects := make([][3]string, n)
	for i := range objects {
		key := fmt.Sprintf("namespace-%d/deployment-%d-7d9c6b8f5d-%05x", i%50, i%1000, i)
		s := key + fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(i)*2654435761, i) + strconv.Itoa(1_000_000+i)
		objects[i] = [3]string{s[:len(key)], s[len(key) : len(key)+36], s[len(key)+36:]}
	}
	return objects
}

// heap returns the bytes that are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkDigest tells how long the digest of a set takes.
func BenchmarkDigest(b *testing.B) {
	const n = 100_000
	s := New()
	for _, o := range makeObjects(n) {
		s.Put(o[0], o[1], change.ResourceVersion(o[2]))
	}
	for b.Loop() {
		if s.Digest().Objects != n {
			b.Fatal("objects are missing")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n/float64(b.N), "ns/object")
}
