package known

import "kubecdc/change"

// Digest returns the digest of the objects that the log has. It reads all entries: 0.3 s for a million objects. Maintaining a
// digest would cost as much for each event as this does for each object.
func (s *Set) Digest() (d change.Digest) {
	for n := range s.made {
		if e := s.entry(n); e.live {
			o := s.unpack(n)
			d.Add(string(s.key(e)), o.UID, o.Version)
		}
	}
	return d
}
