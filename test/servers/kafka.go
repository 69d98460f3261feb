package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// KafkaOptions are all optional.
type KafkaOptions struct {
	Properties map[string]string // more server.properties; they win
	SASL       bool              // adds a SASL_PLAINTEXT listener: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
	JavaFlags  []string
	TLS        bool // adds an SSL listener
	ACLs       bool // KafkaUser may do what ACLs allow. A client without a login may do all
	Guarded    bool // ProxiedBrokers speak TLS, demand a client certificate, and a login as SASL does
	Joined     bool // others join it: one of them that is silent is soon taken for dead
	Lanes      int  // for so many tests at once: see Lane. 0 is 1
	Older      bool // it begins as the release before: see Upgrade
	TwoDisks   bool // its data is in two folders, of which FailDisk breaks the second
}

// The one user of the SASL listener.
const (
	KafkaUser     = "kubecdc"
	KafkaPassword = "secret-pw"
)

const (
	// kafkaSession is how long a broker may be silent. It is long, so that none is fenced because the machine is slow.
	kafkaSession = 30 * time.Second
	// kafkaSessionShort is the session of a broker that comes back, as its controller waits for the old session to end. It is also the
	// session of a broker whose death others must notice.
	kafkaSessionShort = 2 * time.Second
)

// Kafka is one real broker, its own controller (KRaft), or one that joined it. Topics are not created by use.
type Kafka struct {
	Brokers        []string // plaintext
	ProxiedBrokers []string // the same broker through Proxy: what it advertises there is the proxy
	SASLBrokers    []string // with KafkaOptions.SASL
	TLSBrokers     []string // with KafkaOptions.TLS
	CACertFile     string   // CA of the TLS listener
	ClientCertFile string   // for a client that wants to show one
	ClientKeyFile  string
	Proxy          *Proxy // between ProxiedBrokers and the broker; the first of the lanes
	ClusterID      string // which every broker of the cluster says
	Dir            string // folder of this instance: data and log

	opts     KafkaOptions
	home     string
	instance *instance
	keystore string
	ca       *authority
	id       int    // id of the node, the first of which is the controller
	control  string // the controller's address
	lanes    []lane
	free     chan lane // lanes that no test has
	proc     *process
}

// lane is a listener of the broker, and the proxy that it advertises there.
type lane struct {
	*Proxy
	behind string
}

// StartKafka starts a broker on free loopback ports, which it keeps over restarts. It is ready when it returns.
func StartKafka(ctx context.Context, opts KafkaOptions) (*Kafka, error) {
	k, err := newKafka(opts)
	if err != nil {
		return nil, err
	}
	return k, launch(ctx, k, k.instance, k.Start)
}

func newKafka(opts KafkaOptions) (*Kafka, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	home, err := kafkaHome(dir, map[bool]string{true: olderKafka, false: newestKafka}[opts.Older])
	if err != nil {
		return nil, err
	}
	i, err := newInstance(dir, "kafka")
	if err != nil {
		return nil, err
	}
	k := &Kafka{Dir: i.dir, opts: opts, home: home, instance: i, id: 1, ClusterID: kafkaID()}
	if err := errors.Join(k.listen(), k.certify()); err != nil {
		return nil, err
	}
	if err := os.CopyFS(i.path("data"), os.DirFS(filepath.Join(home, "template"))); err != nil {
		return nil, fmt.Errorf("prepare Kafka's data folder: %w", err)
	}
	if err := k.format(); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Kafka) listen() error {
	lanes := max(1, k.opts.Lanes)
	ports, err := freePorts(4 + lanes)
	if err != nil {
		return err
	}
	k.Brokers = []string{loopback(ports[0])}
	k.control = loopback(ports[1])
	if k.opts.SASL {
		k.SASLBrokers = []string{loopback(ports[2])}
	}
	if k.opts.TLS {
		k.TLSBrokers = []string{loopback(ports[3])}
	}
	k.free = make(chan lane, lanes)
	for _, port := range ports[4:] {
		l := lane{behind: loopback(port)}
		if l.Proxy, err = NewProxy(l.behind); err != nil {
			return err
		}
		k.lanes = append(k.lanes, l)
		k.free <- l
	}
	k.Proxy, k.ProxiedBrokers = k.lanes[0].Proxy, []string{k.lanes[0].Address}
	return nil
}

// Start starts the broker after a kill or stop, with the data it had.
func (k *Kafka) Start(ctx context.Context) error { return oneAtATime(ctx, k.start) }

func (k *Kafka) start(ctx context.Context) error {
	err := writeProperties(k.instance.path("server.properties"), k.properties())
	if err != nil {
		return err
	}
	k.proc, err = startJava(k.home, "kafka", k.instance.path("kafka.log"), k.opts.JavaFlags,
		"kafka.Kafka", k.instance.path("server.properties"))
	if err != nil {
		return err
	}
	return k.proc.awaitReady(ctx, k.proc.kafkaStarted)
}

// kafkaStarted searches for the line that a broker logs when its controller has unfenced it and all its listeners are open.
func (p *process) kafkaStarted(context.Context) error {
	if !strings.Contains(p.output(), "Kafka Server started") {
		return errors.New(`no "Kafka Server started" in its log yet`)
	}
	return nil
}

// Restart ends the broker by SIGTERM and starts it again.
func (k *Kafka) Restart(ctx context.Context) error {
	if err := k.proc.stop(syscall.SIGTERM); err != nil {
		return err
	}
	return k.Start(ctx)
}

// Upgrade ends the broker by SIGTERM and starts the newest release with its data.
func (k *Kafka) Upgrade(ctx context.Context) error {
	if err := k.proc.stop(syscall.SIGTERM); err != nil {
		return err
	}
	dir, err := Dir()
	if err == nil {
		k.home, err = kafkaHome(dir, newestKafka)
	}
	if err != nil {
		return err
	}
	return k.Start(ctx)
}

// FailDisk takes the second folder of a broker's data away (KafkaOptions.TwoDisks): the broker notices it once it needs a new file there.
func (k *Kafka) FailDisk() error {
	disk := k.instance.path("data-2")
	return errors.Join(os.Rename(disk, disk+"-gone"), os.WriteFile(disk, nil, 0o600))
}

// Kill is kill -9.
func (k *Kafka) Kill() { k.proc.kill() }

// Pause stops the process without ending it (SIGSTOP): its connections are open and nothing answers. Resume lets it go on.
func (k *Kafka) Pause() error { return k.proc.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume undoes Pause.
func (k *Kafka) Resume() error { return k.proc.cmd.Process.Signal(syscall.SIGCONT) }

// Stop ends the broker, at once, and removes its folder.
func (k *Kafka) Stop() error {
	if !unregister(k) {
		return nil
	}
	for _, lane := range k.lanes {
		lane.Close()
	}
	k.proc.kill()
	return k.instance.close()
}

// startJava runs a class of Kafka's jars with a small heap, for a short life. It has no second compiler, no parallel collector, and
// takes classes from an archive.
func startJava(home, name, log string, flags []string, args ...string) (*process, error) {
	java, err := findJava()
	if err != nil {
		return nil, err
	}
	jars, err := filepath.Glob(filepath.Join(home, "libs", "*.jar"))
	if err != nil || len(jars) == 0 {
		return nil, fmt.Errorf("start %s: no jars in %s (%v)", name, filepath.Join(home, "libs"), err)
	}
	archives := slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, archiveFlag) })
	if archive := classArchive(home); !archives && exists(archive) {
		flags = append(flags, "-XX:SharedArchiveFile="+archive)
	}
	all := append([]string{"-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-XX:-UsePerfData", "-Djava.io.tmpdir=" + filepath.Dir(log)}, flags...) // nothing in the machine's /tmp
	all = append(all, "-cp", strings.Join(jars, string(os.PathListSeparator)))
	return startProcess(command{name: name, path: java, args: append(all, args...), log: log})
}
