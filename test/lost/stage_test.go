package lost

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/test/child"
	"kubecdc/test/e2e"
	"kubecdc/test/kafkatopics"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

// stage is one scenario: a cluster that all contestants watch at the same time, and what they write to.
type stage struct {
	t        testing.TB
	kind     e2e.Kind
	kube     *servers.Kubernetes
	kafka    *servers.Kafka
	postgres *servers.Postgres
	writer   *e2e.Writer
	runs     []*run
	from     int64 // the revision from which on etcd's history counts
	marks    int
}

// run is one contestant on a stage: one process after another.
type run struct {
	*stage
	contestant
	id        string // id of its topics
	dir       string
	processes []*process
}

type process struct {
	*child.Child
	cmd      *exec.Cmd
	out, log child.Output
}

// newStage starts the servers and the contestants, and returns when all of them tell what happens.
func newStage(t testing.TB, kind e2e.Kind, all []contestant) *stage {
	t.Helper()
	s := &stage{t: t, kind: kind}
	var err error
	s.kube, err = servers.StartKubernetes(t.Context(), servers.KubernetesOptions{CompactionInterval: time.Hour}) // the history is recorded
	must(t, err)
	t.Cleanup(func() { _ = s.kube.Stop() })
	s.kafka, err = servers.StartKafka(t.Context(), servers.KafkaOptions{})
	must(t, err)
	t.Cleanup(func() { _ = s.kafka.Stop() })
	s.postgres, err = servers.StartPostgres(t.Context(), servers.PostgresOptions{Fsync: true})
	must(t, err)
	t.Cleanup(func() { _ = s.postgres.Stop() })
	if kind == e2e.Widgets {
		e2e.InstallWidgets(t, s.kube.Config)
	}
	s.writer = e2e.NewWriter(t, s.kube.Config, 1, []e2e.Kind{kind})
	s.writer.Fill(100)
	s.writer.Run(100)
	for i, c := range all {
		r := &run{stage: s, contestant: c, id: fmt.Sprintf("lost%d", i), dir: t.TempDir()}
		s.runs = append(s.runs, r)
		if c.log == nil {
			s.createTopic(r.id)
		}
	}
	s.each((*run).start)
	t.Cleanup(func() { s.each((*run).kill) })
	s.settle()
	s.from, err = s.kube.Revision(t.Context())
	must(t, err)
	return s
}

func (s *stage) broker() string { return strings.Join(s.kafka.Brokers, ",") }

func (s *stage) each(do func(*run)) {
	for _, r := range s.runs {
		do(r)
	}
}

func (s *stage) createTopic(name string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Brokers...))
	must(s.t, err)
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(s.t.Context(), 3, 1, nil, name)
	must(s.t, err)
}

// settle creates one object after another, until each contestant tells such ones, and tells nothing else any more. One that has ended is
// started again.
func (s *stage) settle() {
	fresh, before := map[string]bool{}, []int(nil)
	servers.Await(s.t, "all contestants to tell what happens", func() (bool, error) {
		fresh[s.mark()] = true
		var counts []int
		alive := true
		for _, r := range s.runs {
			r.startAgain()
			reports := r.reports()
			others := slices.DeleteFunc(slices.Clone(reports), func(t report) bool { return fresh[t.key] })
			counts, alive = append(counts, len(others)), alive && len(others) < len(reports)
		}
		done := alive && slices.Equal(counts, before)
		before = counts
		return done, nil
	})
}

// mark creates an object, and returns its key.
func (s *stage) mark() string {
	s.marks++
	name := fmt.Sprintf("mark%d", s.marks)
	version, kind := s.kind.GVR.GroupVersion().String(), map[string]string{"configmaps": "ConfigMap", "widgets": "Widget"}[s.kind.GVR.Resource]
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name}}}
	_, err := dynamic.NewForConfigOrDie(s.kube.Config).Resource(s.kind.GVR).Namespace("default").Create(s.t.Context(), o, metav1.CreateOptions{})
	must(s.t, err)
	return "default/" + name
}

func (r *run) last() *process { return r.processes[len(r.processes)-1] }

func (r *run) start() {
	p := &process{cmd: r.command(r)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
	var err error
	p.Child, err = child.Start(p.cmd)
	must(r.t, err)
	r.processes = append(r.processes, p)
}

// startAgain starts a program that has ended, as a Deployment does.
func (r *run) startAgain() {
	if !r.last().Running() {
		r.start()
	}
}

func (r *run) kill() { r.last().Kill() }

// stop is SIGTERM, as a Pod gets it.
func (r *run) stop() {
	_ = r.last().cmd.Process.Signal(syscall.SIGTERM)
	late, cancel := servers.Patient(context.Background())
	defer cancel()
	select {
	case <-r.last().Done():
	case <-late.Done():
		r.t.Fatalf("%s does not stop:\n%s", r.name, r.last().log.Bytes())
	}
}

// reports returns all that the program has reported so far.
func (r *run) reports() (all []report) {
	if r.log != nil {
		for _, record := range r.log(r).Records {
			if record.Op != "" {
				version, err := record.Version.Revision()
				must(r.t, err)
				all = append(all, report{record.Key, int64(version), record.Op == "d"})
			}
		}
		return all
	}
	e2e.ReadRecords(r.t, kafkatopics.Reading{Brokers: r.kafka.Brokers, Wanted: kafkatopics.These(r.id)}, func(record *kgo.Record) error {
		reports, err := r.parse(record)
		if err != nil {
			return fmt.Errorf("%s: %w: %s", r.name, err, record.Value)
		}
		all = append(all, reports)
		return nil
	})
	return all
}

// controls are the control records of the exporter.
func (r *run) controls(kind change.ControlType) (found []change.Control) {
	if r.log == nil {
		return nil
	}
	for _, c := range r.log(r).Controls {
		if c.Type == kind {
			found = append(found, c)
		}
	}
	return found
}

// doubts matches what programs say when a watch could not go on.
var doubts = regexp.MustCompile(`(?i)(too old|expired|\b410\b|\bgone\b|missed|may be lost)`)

// says is where it says that changes may be missing: in the log itself, or in what it prints.
func (r *run) says() string {
	if slices.ContainsFunc(r.controls(change.ControlGap), func(c change.Control) bool { return !c.Gap.Complete }) {
		return "yes, in the log"
	}
	for _, p := range r.processes[1:] {
		if r.log == nil && doubts.Match(append(p.out.Bytes(), p.log.Bytes()...)) {
			return "in its output: " + string(doubts.Find(append(p.out.Bytes(), p.log.Bytes()...)))
		}
	}
	return "no"
}

var must = require.NoError
