package main

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// entry is a file of a tar archive, or a folder, if its name ends with a slash.
type entry struct {
	name    string
	content []byte
	mode    int64
	owner   int
}

// writeTar writes an archive in which all has one time.
func writeTar(w io.Writer, modified time.Time, entries []entry) error {
	archive := tar.NewWriter(w)
	for _, e := range entries {
		h := tar.Header{Name: e.name, Size: int64(len(e.content)), Mode: e.mode, Uid: e.owner, Gid: e.owner, ModTime: modified, Format: tar.FormatPAX}
		if err := archive.WriteHeader(&h); err != nil { // a name with a slash at its end is a folder to it
			return err
		}
		if _, err := archive.Write(e.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// readDir reads the files and folders of a folder, in the order of their names. Files may be read by all, and are nobody's.
func readDir(dir string) (entries []entry, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		e := entry{name: filepath.ToSlash(name), mode: 0o644}
		if d.IsDir() {
			e.name, e.mode = e.name+"/", 0o755
		} else if e.content, err = os.ReadFile(path); err != nil {
			return err
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}
