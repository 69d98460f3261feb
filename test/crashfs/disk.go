package crashfs

type kind int

const (
	written kind = iota
	truncated
	removed
	synced
	acknowledged
)

// op is one call of SQLite.
type op struct {
	kind   kind
	file   string // what follows the path: "", "-wal" or "-journal"
	offset int64  // where it was written, how large the file is now, or what is acknowledged
	bytes  []byte
}

// sector is the number of bytes that a disk writes together.
const sector = 512

// applied returns the file after the call.
func (o op) applied(file []byte) []byte {
	end := o.offset + int64(len(o.bytes))
	if grown := end - int64(len(file)); grown > 0 {
		file = append(file, make([]byte, grown)...)
	}
	if o.kind == truncated || o.kind == removed {
		return file[:o.offset]
	}
	copy(file[o.offset:], o.bytes)
	return file
}

// sectors cuts a write where the disk may.
func (o op) sectors() (parts []op) {
	if o.kind != written {
		return []op{o}
	}
	for offset, rest := o.offset, o.bytes; len(rest) > 0; {
		n := min(int64(len(rest)), sector-offset%sector)
		parts = append(parts, op{kind: written, offset: offset, bytes: rest[:n]})
		offset, rest = offset+n, rest[n:]
	}
	return parts
}

// disk is what a disk must have by now, and what it may have in addition.
type disk struct {
	durable map[string][]byte
	pending map[string][]op
	entered map[string]bool // the folder is known to have the file's entry
}

// sync makes a file durable. With the first sync of a journal SQLite also syncs the folder, and so the removal of others.
func (d *disk) sync(file string) {
	d.apply(file, len(d.pending[file]))
	if file == "" || d.entered[file] {
		return
	}
	d.entered[file] = true
	for other, ops := range d.pending {
		for i := len(ops); i > 0; i-- {
			if ops[i-1].kind == removed {
				d.apply(other, i)
				d.entered[other] = false
				break
			}
		}
	}
}

// apply makes the first calls durable that are pending.
func (d *disk) apply(file string, n int) {
	for _, o := range d.pending[file][:n] {
		d.durable[file] = o.applied(d.durable[file])
	}
	if d.pending[file] = d.pending[file][n:]; len(d.pending[file]) == 0 {
		delete(d.pending, file)
	}
}
