package past

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
)

// question answers a command for one cluster.
type question func(ctx context.Context, c *cobra.Command, args []string) error

// forEach returns the function of a command that asks one cluster, or each of several. ask returns a question with the flags as
// they were parsed, since an answer changes them. Clusters whose changes are followed are asked at the same time.
func forEach(ask func() (question, *pastFlags), follow *bool) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		several, err := cli.Clusters(c.Context(), c)
		if err != nil {
			return err
		}
		if several == nil {
			one, p := ask()
			return p.explained(one(c.Context(), c, args))
		}
		out := &sections{out: c.OutOrStdout(), errs: c.ErrOrStderr()}
		os.Setenv("PAGER", "") // it would come once for each cluster
		failed := make([]error, len(several))
		var running sync.WaitGroup
		for i, log := range several {
			one, p := ask()
			run := func() {
				part := &section{all: out, cluster: log.Name, names: p.Format == "json"}
				own, to, errs := *c, part.writer(out.out), part.writer(out.errs)
				own.SetOut(to)
				own.SetErr(errs)
				if screen.New(out.out) != nil && !*follow { // lines fit it
					failed[i] = to.title()
					own.SetOut(out.out)
				}
				failed[i] = cmp.Or(failed[i], p.explained(one(log.In(c.Context()), &own, args)), to.end(), errs.end())
			}
			if *follow {
				running.Go(run)
			} else if run(); c.Context().Err() != nil {
				break
			}
		}
		running.Wait()
		return joined(several, failed)
	}
}

// joined returns the errors of all clusters. That something differs is no answer if another cluster has none.
func joined(several []*cli.ClusterLog, failed []error) error {
	var all, differ []error
	for i, err := range failed {
		if fault.Is[*cli.DiffersError](err) {
			differ = append(differ, fmt.Errorf("cluster %s: %w", several[i].Name, err))
		} else if err != nil {
			all = append(all, fmt.Errorf("cluster %s: %w", several[i].Name, err))
		}
	}
	if len(all) == 0 {
		all = differ
	}
	return errors.Join(all...)
}

// sections is an output with a part for each cluster.
type sections struct {
	out, errs io.Writer
	mu        sync.Mutex
	last      string // the cluster that was written last
}

// section is the output of one cluster. A title comes before its lines if those before them are another cluster's. JSON has the
// name of the cluster in each document.
type section struct {
	all     *sections
	cluster string
	names   bool
}

func (s *section) writer(to io.Writer) *sectionWriter { return &sectionWriter{section: s, to: to} }

type sectionWriter struct {
	*section
	to      io.Writer
	pending bytes.Buffer
}

func (w *sectionWriter) Write(text []byte) (int, error) {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.pending.Write(text)
	for {
		end := bytes.IndexByte(w.pending.Bytes(), '\n') + 1
		if end == 0 {
			return len(text), nil
		}
		if err := w.line(w.pending.Next(end)); err != nil {
			return 0, err
		}
	}
}

// end writes what no line end followed.
func (w *sectionWriter) end() error {
	if w.pending.Len() == 0 {
		return nil
	}
	_, err := w.Write([]byte("\n"))
	return err
}

func (w *sectionWriter) line(line []byte) error {
	if rest, isDocument := bytes.CutPrefix(line, []byte("{")); isDocument && w.names && w.to == w.all.out {
		name, err := json.Marshal(w.cluster)
		if err != nil {
			return err
		}
		line = slices.Concat([]byte(`{"cluster":`), name, []byte(","), rest)
	} else if err := w.title(); err != nil {
		return err
	}
	_, err := w.to.Write(line)
	return err
}

// title names the cluster, unless it was the last to be named.
func (w *sectionWriter) title() error {
	if w.all.last == w.cluster {
		return nil
	}
	w.all.last = w.cluster
	_, err := plain.Fprintf(w.to, "# cluster %s\n", w.cluster)
	return err
}
