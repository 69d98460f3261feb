package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// showNext shows what to try next. With KEEP=1 everything runs on until Ctrl-C.
func (t *tour) showNext(ctx context.Context) {
	t.screen.chapter("Look around")
	if !keep() {
		t.screen.say("KEEP=1 make demo leaves everything running at this point, and prints how to reach it.")
		return
	}
	t.screen.say("Everything runs until Ctrl-C. In another terminal, in this folder:")
	t.command("watch the changes come in", "KUBECDC_CLUSTER="+clusterName+" KUBECDC_SINK=kafka KUBECDC_KAFKA_BROKERS="+t.stack.brokers+" "+
		short(t.stack.binary)+" tail")
	t.command("change something", "export KUBECONFIG="+short(t.stack.kube.Kubeconfig),
		"kubectl -n "+namespace+" create configmap hello --from-literal=who=world",
		"kubectl -n "+namespace+" delete order "+orderName(1001))
	t.command("how far each stream is complete, and every gap; any Kafka client will do",
		fmt.Sprintf("kcat -b %s -t %s.control -C -e -X isolation.level=read_committed", t.stack.brokers, topicPrefix))
	t.command("the checkpoint: positions, inventory, history (checkpoints)", t.checkpointCommand())
	t.command("the status page, in a browser", "http://"+t.exporter.Listen+"/")
	t.command("the exporter", "curl http://"+t.exporter.Listen+"/readyz", "curl http://"+t.exporter.Listen+"/metrics",
		"tail -f "+short(t.exporter.log))
	t.command("break it; it is started again", fmt.Sprintf("kill -9 %d", t.exporter.pid()))
	t.keepRunning(ctx)
}

// keepRunning starts the exporter again whenever it ends, until the reader has enough.
func (t *tour) keepRunning(ctx context.Context) {
	for {
		began, stop := time.Now(), t.screen.wait("you: everything runs until Ctrl-C")
		select {
		case <-ctx.Done():
		case <-t.exporter.Done():
		}
		stop()
		var err error
		switch {
		case ctx.Err() != nil:
			return
		case time.Since(began) < 5*time.Second:
			err = errExited
		default:
			t.exporter, err = t.stack.startExporter()
		}
		if err != nil {
			t.screen.warn("%s; the last lines of its log:", err)
			t.screen.print(t.exporter.logTail())
			return
		}
		t.screen.say("The exporter was ended; it is started again, as process %d: http://%s/readyz", t.exporter.pid(), t.exporter.Listen)
	}
}

func (t *tour) checkpointCommand() string {
	const query = `"select * from positions join streams on id = stream"`
	if t.stack.sql == nil {
		return "sqlite3 " + short(strings.TrimPrefix(t.stack.checkpointURL(), "sqlite:")) + " " + query
	}
	return fmt.Sprintf("psql '%s'", t.stack.checkpointURL()) + ` -c 'select * from kubecdc.positions join kubecdc.streams on id = stream'`
}

// command prints command lines that can be copied, with what they are for. They are not wrapped.
func (t *tour) command(what string, lines ...string) {
	t.screen.remark("%s", what)
	for _, line := range lines {
		t.screen.print("     " + line)
	}
}

// short returns a path as it is from here, where that is shorter.
func short(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if relative, err := filepath.Rel(here, path); err == nil && len(relative) < len(path) {
		return relative
	}
	return path
}
