package crashfs

import (
	"strings"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// The functions of SQLite's own VFS (https://www.sqlite.org/vfs.html) do the work. Some of them are wrapped to be recorded.
type (
	openFunc     = func(tls *libc.TLS, vfs, path, file uintptr, flags int32, out uintptr) int32
	deleteFunc   = func(tls *libc.TLS, vfs, path uintptr, syncFolder int32) int32
	writeFunc    = func(tls *libc.TLS, file, bytes uintptr, n int32, offset int64) int32
	truncateFunc = func(tls *libc.TLS, file uintptr, size int64) int32
	syncFunc     = func(tls *libc.TLS, file uintptr, flags int32) int32
)

// wrapped is an open file, with the methods of SQLite's own VFS.
type wrapped struct {
	path string
	own  *sqlite3.Tsqlite3_io_methods
}

var shim struct {
	once sync.Once
	mu   sync.Mutex
	own  *sqlite3.Tsqlite3_vfs
	open map[uintptr]wrapped
	ours map[uintptr]uintptr // the methods that wrap a kind of file's own
	to   *Recording
}

// install makes the recording VFS the default of this process.
func install() {
	tls := libc.NewTLS()
	found := sqlite3.Xsqlite3_vfs_find(tls, 0)
	shim.own, shim.open, shim.ours = pointerTo[sqlite3.Tsqlite3_vfs](found), map[uintptr]wrapped{}, map[uintptr]uintptr{}
	vfs := copied(tls, *shim.own)
	name, _ := libc.CString("crashfs")
	v := pointerTo[sqlite3.Tsqlite3_vfs](vfs)
	v.FzName, v.FpNext, v.FxOpen, v.FxDelete = name, 0, pointer[openFunc](open), pointer[deleteFunc](remove)
	sqlite3.Xsqlite3_vfs_register(tls, vfs, 1)
}

func open(tls *libc.TLS, vfs, path, file uintptr, flags int32, out uintptr) int32 {
	code := function[openFunc](shim.own.FxOpen)(tls, vfs, path, file, flags, out)
	shim.mu.Lock()
	defer shim.mu.Unlock()
	if code != sqlite3.SQLITE_OK || path == 0 || shim.to == nil || !strings.HasPrefix(libc.GoString(path), shim.to.path) {
		return code
	}
	methods := &pointerTo[sqlite3.Tsqlite3_file](file).FpMethods
	own := pointerTo[sqlite3.Tsqlite3_io_methods](*methods)
	if shim.ours[*methods] == 0 {
		ours := copied(tls, *own)
		m := pointerTo[sqlite3.Tsqlite3_io_methods](ours)
		m.FxWrite, m.FxTruncate, m.FxSync = pointer[writeFunc](write), pointer[truncateFunc](truncate), pointer[syncFunc](syncFile)
		shim.ours[*methods] = ours
	}
	shim.open[file] = wrapped{libc.GoString(path), own}
	*methods = shim.ours[*methods]
	return code
}

func remove(tls *libc.TLS, vfs, path uintptr, syncFolder int32) int32 {
	code := function[deleteFunc](shim.own.FxDelete)(tls, vfs, path, syncFolder)
	record(code, libc.GoString(path), op{kind: removed})
	return code
}

func write(tls *libc.TLS, file, bytes uintptr, n int32, offset int64) int32 {
	f := methodsOf(file)
	code := function[writeFunc](f.own.FxWrite)(tls, file, bytes, n, offset)
	record(code, f.path, op{kind: written, offset: offset, bytes: append([]byte{}, libc.GoBytes(bytes, int(n))...)})
	return code
}

func truncate(tls *libc.TLS, file uintptr, size int64) int32 {
	f := methodsOf(file)
	code := function[truncateFunc](f.own.FxTruncate)(tls, file, size)
	record(code, f.path, op{kind: truncated, offset: size})
	return code
}

func syncFile(tls *libc.TLS, file uintptr, flags int32) int32 {
	f := methodsOf(file)
	code := function[syncFunc](f.own.FxSync)(tls, file, flags)
	record(code, f.path, op{kind: synced})
	return code
}

func methodsOf(file uintptr) wrapped {
	shim.mu.Lock()
	defer shim.mu.Unlock()
	return shim.open[file]
}

func record(code int32, path string, o op) {
	shim.mu.Lock()
	defer shim.mu.Unlock()
	if r := shim.to; r != nil && code == sqlite3.SQLITE_OK && strings.HasPrefix(path, r.path) {
		o.file = strings.TrimPrefix(path, r.path)
		r.ops = append(r.ops, o)
	}
}

// copied returns a copy of a struct of C, in memory that is C's.
func copied[T any](tls *libc.TLS, value T) uintptr {
	p := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(value)))
	*pointerTo[T](p) = value
	return p
}

// pointerTo returns what a pointer of C points to.
func pointerTo[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// pointer makes a pointer of C to a function, and function a function of one: as SQLite's translation to Go does.
func pointer[T any](f T) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

func function[T any](p uintptr) T { return *(*T)(unsafe.Pointer(&p)) }
