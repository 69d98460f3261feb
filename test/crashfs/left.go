package crashfs

import "math/rand/v2"

// hows are the ways in which calls that were not synced are on the disk, or not.
var hows = []struct {
	what string
	left func(random *rand.Rand, file []byte, ops []op) []byte
}{
	{"nothing that was not synced is left", func(_ *rand.Rand, file []byte, _ []op) []byte { return file }},
	{"the last write is cut", func(random *rand.Rand, file []byte, ops []op) []byte {
		for i, o := range ops {
			if i == len(ops)-1 && o.kind == written {
				o.bytes = o.bytes[:random.IntN(len(o.bytes)+1)]
			}
			file = o.applied(file)
		}
		return file
	}},
	{"one write is missing", func(random *rand.Rand, file []byte, ops []op) []byte {
		missing := random.IntN(len(ops))
		for i, o := range ops {
			if i != missing {
				file = o.applied(file)
			}
		}
		return file
	}},
	{"some writes are missing", func(random *rand.Rand, file []byte, ops []op) []byte {
		for _, o := range ops {
			if random.IntN(2) == 0 {
				file = o.applied(file)
			}
		}
		return file
	}},
	{"some sectors are missing", func(random *rand.Rand, file []byte, ops []op) []byte {
		for _, o := range ops {
			for _, part := range o.sectors() {
				if random.IntN(8) > 0 {
					file = part.applied(file)
				}
			}
		}
		return file
	}},
}
