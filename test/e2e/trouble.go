package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// trouble is something that breaks, how it must be named meanwhile, and how it is mended.
type trouble struct {
	name       string
	make, mend func()
	hint       string // what to do, in the log and in /readyz
}

// affected are exporters by the component that is in trouble: so /readyz names it, and kubecdc_errors_total its stage.
type affected map[string]*Exporter

// endure makes the trouble while changes are made, and demands that it is named, counted, and over when it is mended,
// all in the same processes.
func (who affected) endure(t *testing.T, writer *Writer, p trouble) {
	t.Helper()
	before := who.errors(t)
	p.make()
	started := time.Now()
	writer.Run(30)
	for component, e := range who {
		said := e.awaitNamed(t, writer, p, component)
		t.Logf("%s: %s named after %.1fs: %.300s", p.name, component, time.Since(started).Seconds(), said)
		e.wantLogged(t, p.hint)
		if after := who.errors(t)[component]; after <= before[component] {
			t.Errorf("%s: kubecdc_errors_total{stage=%q} was %v and is %v", p.name, component, before[component], after)
		}
	}
	p.mend()
	mended := time.Now()
	writer.Run(30)
	for component, e := range who {
		e.awaitWell(t, p.name)
		t.Logf("%s: %s is well %.1fs after it was mended", p.name, component, time.Since(mended).Seconds())
	}
}

func (who affected) errors(t *testing.T) map[string]float64 {
	t.Helper()
	counts := map[string]float64{}
	for component, e := range who {
		counts[component] = e.Metric(t, "kubecdc_errors_total", `stage="`+component+`"`)
	}
	return counts
}

// awaitNamed makes changes until /readyz has a line of the component with the hint, and gives the line. New objects are
// among them: updates may need no room on a disk.
func (e *Exporter) awaitNamed(t *testing.T, writer *Writer, p trouble, component string) (said string) {
	t.Helper()
	Await(t, 30*time.Second, p.name+": /readyz to name the "+component, func() (bool, error) {
		for _, line := range strings.Split(e.Wrong(), "\n") {
			if strings.HasPrefix(line, component+": ") && strings.Contains(line, p.hint) {
				said = line
				return true, nil
			}
		}
		writer.Run(2)
		for _, kind := range writer.kinds {
			for range 5 {
				writer.mark(kind)
			}
		}
		return false, nil
	})
	return said
}

// awaitWell waits until nothing is wrong and a batch has been committed.
func (e *Exporter) awaitWell(t *testing.T, after string) {
	t.Helper()
	batches := e.Metric(t, "kubecdc_batches_total", "")
	Await(t, 40*time.Second, "all to be well after: "+after, func() (bool, error) {
		select {
		case <-e.Done():
			return false, fmt.Errorf("the exporter ended:\n%s", e.Tail(3000))
		default:
			return e.Ready() && e.Wrong() == "" && e.Metric(t, "kubecdc_batches_total", "") > batches, nil
		}
	})
}

// flood makes n changes of some ConfigMaps as fast as it can, each of size bytes.
func flood(t *testing.T, config *rest.Config, n, size int) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	api := dynamic.NewForConfigOrDie(config).Resource(ConfigMaps.GVR).Namespace("default")
	const writers = 8
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			name := fmt.Sprintf("flood%d", i)
			for k := range n / writers {
				object := sample(ConfigMaps, name, k, size)
				var err error
				if k == 0 {
					_, err = api.Create(context.Background(), object, metav1.CreateOptions{})
				} else {
					_, err = api.Update(context.Background(), object, metav1.UpdateOptions{})
				}
				if err != nil {
					t.Errorf("write %s: %v", name, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
