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

// trouble is a fault, the name that it must get meanwhile, and how it is mended.
type trouble struct {
	name       string
	make, mend func()
	hint       string // what to do, in the log and in /readyz
}

// affected are exporters by the component that is in trouble. /readyz names the component, and kubecdc_errors_total its stage.
type affected map[string]*Exporter

// endure makes the trouble while changes are made. It demands that the trouble is named and counted, and that it ends when it is
// mended, all in the same processes.
func (who affected) endure(t *testing.T, writer *Writer, p trouble) {
	t.Helper()
	before := map[string]float64{}
	for component, e := range who {
		before[component] = e.errors(t, component)
	}
	p.make()
	started := time.Now()
	writer.Run(30)
	for component, e := range who {
		e.awaitNamed(t, writer, p, component, before[component])
		t.Logf("%s: %s named and counted after %.1fs", p.name, component, time.Since(started).Seconds())
	}
	p.mend()
	mended := time.Now()
	writer.Run(30)
	for component, e := range who {
		e.awaitWell(t, p.name)
		t.Logf("%s: %s is well %.1fs after it was mended", p.name, component, time.Since(mended).Seconds())
	}
}

func (e *Exporter) errors(t *testing.T, component string) float64 {
	t.Helper()
	return e.Metric(t, "kubecdc_errors_total", `stage="`+component+`"`)
}

// awaitNamed makes changes until /readyz has a line of the component with the hint, the log too, and an error is counted. A probe
// may find the trouble before a change does. The changes include new objects, since updates may need no room on a disk.
func (e *Exporter) awaitNamed(t *testing.T, writer *Writer, p trouble, component string, counted float64) {
	t.Helper()
	named := false
	Await(t, p.name+": /readyz, the log and the metrics to name the "+component, func() (bool, error) {
		named = named || hasLine(e.Wrong(), []string{component + ": ", p.hint})
		if named && hasLine(string(e.log.Bytes()), []string{p.hint}) && e.errors(t, component) > counted {
			return true, nil
		}
		writer.Run(2)
		for _, kind := range writer.kinds {
			for range 5 {
				writer.mark(kind)
			}
		}
		return false, nil
	})
}

// awaitWell waits until nothing is wrong and a batch has been committed. There is always another batch, since the cluster's
// revision moves.
func (e *Exporter) awaitWell(t *testing.T, after string) {
	t.Helper()
	batches := e.Metric(t, "kubecdc_batches_total", "")
	Await(t, "all to be well after: "+after, func() (bool, error) {
		select {
		case <-e.Done():
			return false, fmt.Errorf("the exporter ended:\n%s", e.Tail(3000))
		default:
			return e.Ready() && e.Wrong() == "" && e.Metric(t, "kubecdc_batches_total", "") > batches, nil
		}
	})
}

// flood makes n changes of some ConfigMaps as fast as possible, each of size bytes.
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

// sessions returns an upper bound for the sessions that the process has begun.
func (e *Exporter) sessions() int {
	return 1 + strings.Count(string(e.log.Bytes()), "the session failed")
}
