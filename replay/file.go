package replay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"kubecdc/change"
	"kubecdc/sinks"
)

// File is a Target: a file of JSON lines, a record each. The control records are in a second file, each with the size that the
// first one then has: what is behind that size was not finished, and is cut off.
type File struct {
	path, id    string
	data, marks *os.File
	size        int64
	text        bytes.Buffer
}

var _ Target = (*File)(nil)

// NewFile makes a target of a file that need not exist.
func NewFile(path string) *File { return &File{path: path} }

// MarksPath is the second file.
func (f *File) MarksPath() string { return f.path + ".replay" }

type mark struct {
	Size    int64           `json:"size"`
	Control *change.Control `json:"control"`
}

// Open reads the second file, and cuts the first one to the size in its last line.
func (f *File) Open(_ context.Context, id string, visit func(*change.Control) error) (err error) {
	f.id = id
	if _, err := os.Stat(f.MarksPath()); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(f.path); err == nil {
			return fmt.Errorf("%s exists, and no replay has written it: name another file", f.path)
		}
	}
	if f.marks, err = os.OpenFile(f.MarksPath(), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if f.data, err = os.OpenFile(f.path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	end, err := f.readMarks(visit)
	if err != nil {
		return err
	}
	if info, err := f.data.Stat(); err != nil {
		return err
	} else if info.Size() < f.size {
		return fmt.Errorf("%s has %d bytes, and %s knows of %d: it was cut or deleted. Delete both, and begin the replay again",
			f.path, info.Size(), f.MarksPath(), f.size)
	}
	for _, cut := range []struct {
		*os.File
		size int64
	}{{f.marks, end}, {f.data, f.size}} {
		if err := cut.Truncate(cut.size); err != nil {
			return err
		}
		if _, err := cut.Seek(cut.size, io.SeekStart); err != nil {
			return err
		}
	}
	return nil
}

// readMarks returns where the last whole line ends.
func (f *File) readMarks(visit func(*change.Control) error) (end int64, err error) {
	lines := bufio.NewReader(f.marks)
	for {
		text, err := lines.ReadBytes('\n')
		var m mark
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			return end, fmt.Errorf("read %s: %w", f.MarksPath(), err)
		}
		if err := visit(m.Control); err != nil {
			return end, err
		}
		end, f.size = end+int64(len(text)), m.Size
	}
}

// Write appends lines, and waits for the disk; then the mark.
func (f *File) Write(_ context.Context, changes []sinks.Logged, c *change.Control) error {
	f.text.Reset()
	for i := range changes {
		if err := appendLines(&f.text, f.id, &changes[i]); err != nil {
			return err
		}
	}
	if err := appendSynced(f.data, f.text.Bytes()); err != nil {
		return err
	}
	f.size += int64(f.text.Len())
	text, err := json.Marshal(mark{f.size, c})
	if err != nil {
		return fmt.Errorf("encode control record %s: %w", c.Type, err)
	}
	return appendSynced(f.marks, append(text, '\n'))
}

func appendSynced(file *os.File, text []byte) error {
	if _, err := file.Write(text); err != nil {
		return err
	}
	return file.Sync()
}

// Close closes both files.
func (f *File) Close() error {
	var errs []error
	for _, file := range []*os.File{f.data, f.marks} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// Stream is a Target that nothing can be read back from: standard output.
type Stream struct {
	out  io.Writer
	id   string
	text bytes.Buffer
}

var _ Target = (*Stream)(nil)

// NewStream makes a target of a writer.
func NewStream(w io.Writer) *Stream { return &Stream{out: w} }

// Open notes the id.
func (s *Stream) Open(_ context.Context, id string, _ func(*change.Control) error) error {
	s.id = id
	return nil
}

// Write writes the records alone: of the control records only the last one would mean anything to a reader, who sees the end.
func (s *Stream) Write(_ context.Context, changes []sinks.Logged, _ *change.Control) error {
	s.text.Reset()
	for i := range changes {
		if err := appendLines(&s.text, s.id, &changes[i]); err != nil {
			return err
		}
	}
	_, err := s.out.Write(s.text.Bytes())
	return err
}

// Close does nothing: each Write has written all.
func (s *Stream) Close() error { return nil }
