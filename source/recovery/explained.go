package recovery

// explained has the revisions of a gap (from, to] whose write is known. A revision writes one key. So a known change explains its
// revision, whether it is in this collection or in another one of the same etcd (coordinator.go): nothing else changed there. No
// read is needed at that revision, since every other object is in the same state as at the revision before.
//
// Several Events expire at one revision, so an Event's deletion explains nothing for other Events. It explains its revision for
// other resources, and their changes explain theirs for Events. A revision that writes an Event deletes none. No revision of an
// aggregated server is explained, since nothing is known of its store.
type explained struct {
	from, to uint64
	own      revisions    // changes that this recovery found. Deletions are left out if a revision may delete several objects
	others   *Participant // whose partners explain revisions too; nil: there are none
}

func (x *explained) page(n uint64) (p page) {
	x.own.addTo(&p, n)
	x.others.addPartners(&p, n)
	return p
}

// highest returns the newest revision at or below this one that is not explained, or from if all are.
func (x *explained) highest(revision uint64) uint64 {
	for revision > x.from {
		n := revision / pageSize
		p := x.page(n)
		if missing, ok := p.highestMissing(n, revision); ok {
			return max(missing, x.from)
		}
		revision = max(n*pageSize, 1) - 1
	}
	return x.from
}

// lowest returns the oldest revision at or above this one that is not explained, or to if all are.
func (x *explained) lowest(revision uint64) uint64 {
	for revision < x.to {
		n := revision / pageSize
		p := x.page(n)
		if missing, ok := p.lowestMissing(n, revision); ok {
			return min(missing, x.to)
		}
		revision = (n + 1) * pageSize
	}
	return x.to
}

func (x *explained) unexplained(lo, hi uint64) (revisions []uint64) {
	for n, r := lo/pageSize, lo+1; r < hi; n, r = n+1, (n+1)*pageSize {
		if r/pageSize != n {
			continue
		}
		p := x.page(n)
		for r, ok := p.lowestMissing(n, r); ok && r < hi; {
			revisions = append(revisions, r)
			if r++; r/pageSize != n {
				break
			}
			r, ok = p.lowestMissing(n, r)
		}
	}
	return revisions
}

func (x *explained) upTo(lo, hi uint64) []uint64 { return x.unexplained(lo, hi+1) }

// accountedFor returns how many revisions are explained or were read.
func (x *explained) accountedFor(read *revisions) (n int) {
	for number := x.from / pageSize; number <= x.to/pageSize; number++ {
		p := x.page(number)
		read.addTo(&p, number)
		n += p.count(number, x.from, x.to)
	}
	return n
}
