package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"kubecdc/internal/rawjson"
	"kubecdc/internal/wait"
)

// pollEvery is how often files are polled. After a failed write, the same lines are read again after that time.
const pollEvery = time.Second

// Files reads files with an event a line, as kube-apiserver and log shippers write them, while they grow and are rotated. Nothing
// is remembered: the next start reads the files again, and the log keeps each event once.
type Files struct {
	intake   *Intake
	patterns []string
	log      *slog.Logger
	open     []*tailed
}

// tailed is a file, whatever its name is by now.
type tailed struct {
	*os.File
	info   os.FileInfo
	offset int64  // up to where the events are durable
	before []byte // what is there before the offset
	named  bool   // a path of the pattern still names this file
}

// NewFiles returns a reader of all files whose paths match a pattern (filepath.Match).
func NewFiles(i *Intake, patterns []string, log *slog.Logger) *Files {
	return &Files{intake: i, patterns: patterns, log: log}
}

// Run reads the files until the context ends. It retries after every error.
func (f *Files) Run(ctx context.Context) {
	defer func() {
		for _, t := range f.open {
			_ = t.Close()
		}
	}()
	for insist(ctx, f.log, "files", func() error { return f.poll(ctx) }) == nil && wait.For(ctx, pollEvery) == nil {
	}
}

// insist does something however often that fails, until the context ends.
func insist(ctx context.Context, log *slog.Logger, purpose string, do func() error) error {
	for failing := false; ; failing = true {
		err := do()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if !failing && !errors.Is(err, ErrNotOpen) {
			log.Warn("audit events of "+purpose+" can't be taken in; it is tried again", "in", pollEvery.String(), "error", err)
		}
		if err := wait.For(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// poll reads what is new in all files. It reads the rest of a file that was renamed before it reads the file that has its name
// now.
func (f *Files) poll(ctx context.Context) error {
	errs := []error{f.find()}
	open := f.open[:0]
	for _, t := range f.open {
		err := t.read(ctx, f.intake)
		errs = append(errs, err)
		if err == nil && !t.named {
			_ = t.Close()
			continue
		}
		open = append(open, t)
	}
	f.open = open
	return errors.Join(errs...)
}

func (f *Files) find() error {
	for _, t := range f.open {
		t.named = false
	}
	var errs []error
	for _, pattern := range f.patterns {
		paths, _ := filepath.Glob(pattern) // config has checked the pattern
		for _, path := range paths {
			errs = append(errs, f.found(path))
		}
	}
	return errors.Join(errs...)
}

func (f *Files) found(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil // it was renamed meanwhile
	}
	for _, t := range f.open {
		if os.SameFile(t.info, info) {
			t.named = true
			return nil
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	if info, err = file.Stat(); err != nil {
		return errors.Join(err, file.Close())
	}
	f.open = append(f.open, &tailed{File: file, info: info, named: true})
	return nil
}

// read takes the lines that have been added. A file that has become shorter was emptied, and is read from its beginning. A file
// with other lines before the offset was emptied and filled again, so it is read from its beginning, too.
func (t *tailed) read(ctx context.Context, i *Intake) error {
	info, err := t.Stat()
	if err != nil {
		return err
	}
	if info.Size() < t.offset || !bytes.Equal(t.tail(), t.before) {
		t.offset = 0
	}
	if info.Size() == t.offset {
		return nil
	}
	end, err := i.lines(ctx, io.NewSectionReader(t, t.offset, info.Size()-t.offset))
	if t.offset += end; end > 0 {
		t.before = t.tail()
	}
	if err != nil {
		return fmt.Errorf("read audit events of %s: %w", t.Name(), err)
	}
	return nil
}

// tail is the end of what was taken in, with the last event, or most of it.
func (t *tailed) tail() []byte {
	end := make([]byte, min(t.offset, 4096))
	n, _ := t.ReadAt(end, t.offset-int64(len(end))) // a file that is shorter was emptied
	return end[:n]
}

// lines makes the events of complete lines durable. It returns how many bytes of lines are durable, with an error too. It skips a
// line that is longer than any event.
func (i *Intake) lines(ctx context.Context, from io.Reader) (passed int64, err error) {
	b, err := i.begin(ctx)
	if err != nil {
		return 0, err
	}
	r := bufio.NewReaderSize(from, 64<<10)
	var line []byte
	var complete int64 // bytes of the complete lines
	for read := int64(0); ; {
		part, err := r.ReadSlice('\n')
		if len(line) <= rawjson.LargestValue {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			read += int64(len(part))
			continue
		case errors.Is(err, io.EOF):
			return b.rest(passed, complete)
		case err != nil:
			return passed, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if err := b.add(line); err != nil {
				return passed, err
			}
		}
		read += int64(len(part))
		complete, line = read, line[:0]
		if len(b.records) == 0 {
			passed = complete
		}
	}
}

// rest writes the lines that are not yet written, up to complete.
func (b *batch) rest(passed, complete int64) (int64, error) {
	if err := b.write(); err != nil {
		return passed, err
	}
	return complete, nil
}

// streamed is how many bytes of lines are held before they are taken in.
const streamed = 1 << 20

// Stream takes in the lines of a stream, such as standard input, until it ends. It continues once everything that it has read is
// durable.
func (i *Intake) Stream(ctx context.Context, from io.Reader, log *slog.Logger) error {
	r := bufio.NewReaderSize(from, 64<<10)
	var held []byte
	for {
		part, err := r.ReadSlice('\n')
		held = append(held, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(held) > streamed+rawjson.LargestValue {
				held = held[:0] // no event is as long
			}
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("read audit events of standard input: %w", err)
		case err == nil && r.Buffered() > 0 && len(held) < streamed:
			continue
		}
		if err != nil {
			held = append(held, '\n')
		}
		lines := held
		ended := insist(ctx, log, "standard input", func() error {
			done, err := i.lines(ctx, bytes.NewReader(lines))
			lines = lines[done:]
			return err
		})
		if err != nil || ended != nil {
			return ended
		}
		held = held[:0]
	}
}
