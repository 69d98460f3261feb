package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/commit"
	"kubecdc/export/plan"
	"kubecdc/export/spooling"
	"kubecdc/export/streams"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/spool"
	"kubecdc/test/exporttest"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

// outage is a slot with a spool, a checkpoint in a file, and a real sink behind a proxy.
type outage struct {
	t     *testing.T
	parts *plan.Watched
	sink  *servers.Proxy
	log   *watched
	url   string // the sink's, without the proxy
	slot  *slot
	state checkpoint.SlotState
	m     *commit.Opened // the session's

	filter *commit.Filter // decides what the written batches leave out; may be nil
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	url := servers.Database(t)
	config, err := pgx.ParseConfig(url)
	mustDo(t, err)
	address := fmt.Sprintf("%s:%d", config.Host, config.Port)
	proxy, err := servers.NewProxy(address)
	mustDo(t, err)
	t.Cleanup(func() { proxy.Close() })
	o := &outage{t: t, parts: partsIn(t, strings.Replace(url, address, proxy.Address, 1), 1), sink: proxy, url: url}
	o.parts.Spools = &spool.Folder{Path: t.TempDir(), MaxBytes: 1 << 30, Cluster: "prod", ClusterUID: "uid", ClusterIDs: []string{"uid"}, Logger: o.parts.Logger}
	o.log = &watched{Sink: o.parts.Sink}
	o.parts.Sink = o.log
	o.parts.Log, err = o.parts.Sink.Identity(t.Context())
	mustDo(t, err)
	o.restart()
	return o
}

// restart forgets what the process knows.
func (o *outage) restart() { o.slot = newSlot(0, configFor(1), o.parts, nil) }

// play makes the steps of a script: sessions begin and end, batches are written, the sink is cut, and the log is compared.
func (o *outage) play(script string) {
	o.t.Helper()
	for step := range strings.SplitSeq(script, ", ") {
		var err error
		word, rest, _ := strings.Cut(step, " ")
		switch word {
		case "begin":
			err = o.begin(o.t.Context())
		case "await": // a session that writes to the sink
			o.awaitSink()
		case "write":
			err = o.write(rest)
		case "fail": // a batch, and the session with it
			o.end(o.write(rest))
		case "flush":
			err = o.m.Following.Flush(o.t.Context())
		case "end":
			o.end(errOther)
		case "cut":
			o.sink.Cut()
		case "restore":
			err = o.sink.Restore()
		case "restart":
			o.restart()
		case "log":
			if got := strings.Join(o.names(), " "); got != rest {
				o.t.Errorf("the log has %s, want %s", got, rest)
			}
		default:
			o.t.Fatalf("no step is called %s", step)
		}
		if err != nil {
			o.t.Fatalf("%s of %s: %v", step, script, err)
		}
	}
}

// begin begins a session.
func (o *outage) begin(ctx context.Context) (err error) {
	o.state, err = o.slot.acquire(ctx)
	mustDo(o.t, err)
	o.slot.sink = acquired(o.slot.sink, &o.state)
	o.m, err = o.slot.openMemory(ctx, &o.state)
	o.slot.inventory.Learn(err)
	return err
}

// awaitSink begins sessions until one writes to the sink. Connections that were cut fail once more.
func (o *outage) awaitSink() {
	o.t.Helper()
	servers.Await(o.t, "a session with the sink", func() (bool, error) {
		if err := o.begin(o.t.Context()); fault.Is[*sinks.LostTailError](err) {
			return false, nil // the next session records the loss
		} else if err != nil {
			return false, err
		}
		_, spools := o.m.Memory.(*spooling.Memory)
		if spools {
			o.end(errOther)
		}
		return !spools, nil
	})
}

// intoSpool begins a session with a spool, while the sink is away and has one batch.
const intoSpool = "begin, write 1, cut, end, begin"

// write commits a batch with one change.
func (o *outage) write(text string) error {
	c := change.Change{Op: change.Create, Stream: exporttest.Pods, Namespace: "ns", Name: "p" + text, UID: "u" + text, ResourceVersion: change.ResourceVersion(text),
		After: []byte("{}"), Time: time.Now()}
	p := change.Position{Stream: exporttest.Pods.ID(), ResourceVersion: c.ResourceVersion, Time: time.Now().UTC()}
	to := commit.New(&o.slot.Slot, o.m, o.state.Epoch)
	to.Filter = o.filter
	return to.Commit(o.t.Context(), &batching.Batch{Batch: change.Batch{Changes: []change.Change{c}},
		Newest: map[change.StreamID]change.Position{exporttest.Pods.ID(): p}})
}

// end ends a session with an error.
func (o *outage) end(err error) {
	_ = o.slot.finish(o.t.Context(), o.m.Following, err)
	if next, _ := outcomeOf(err, o.slot.sink, false); next == spoolNext {
		o.slot.sink = failed(o.slot.sink, err)
	}
	o.slot.release(o.state.Epoch)
	o.m.Log.Close()
}

// names returns the objects of the log's changes, in their order.
func (o *outage) names() (all []string) {
	o.t.Helper()
	db := servers.Connect(o.t, o.url)
	rows, err := db.Query(o.t.Context(), `select name from kubecdc_log.changes order by batch, n`)
	mustDo(o.t, err)
	all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	mustDo(o.t, err)
	return all
}

// settingsInSpool returns how many records of an owner's settings are in the spool, which nobody has open.
func (o *outage) settingsInSpool() (n int) {
	o.t.Helper()
	s, err := o.parts.Spools.Open(o.t.Context(), 0)
	mustDo(o.t, err)
	defer s.Close()
	mustDo(o.t, s.Forward(o.t.Context(), s.First-1, func(b *change.Batch) error {
		for i := range b.Controls {
			if b.Controls[i].Type == change.ControlSettings {
				n++
			}
		}
		return nil
	}))
	return n
}

var errOther = errors.New("something that has nothing to do with the sink")

// A session ends while the sink is away, for any reason. The next one reads on into a spool, if the process knows what the log has. In the
// end the log has each change once.
func TestASpoolBeginsWhateverEndsASession(t *testing.T) {
	for _, test := range []struct {
		name  string
		end   func(o *outage) error // ends the session
		known bool
		log   string // in the end
	}{
		{"another error", func(o *outage) error { o.sink.Cut(); return errOther }, true, "p1 p3 p4"},
		{"a batch that does not arrive", func(o *outage) error { o.sink.Cut(); return o.write("2") }, true, "p1 p2 p3 p4"},
		{"a batch that is fenced", func(o *outage) error {
			defer o.sink.Cut()
			o.exec(`update kubecdc_log.slots set epoch = epoch + 1`)
			err := o.write("2")
			o.exec(`update kubecdc_log.slots set epoch = epoch - 1`)
			return err
		}, true, "p1 p2 p3 p4"},
		{"a batch whose answer is lost", func(o *outage) error {
			o.log.written = func() error { o.sink.Cut(); o.log.written = nil; return io.ErrUnexpectedEOF }
			return o.write("2")
		}, true, "p1 p2 p3 p4"},
		{"a kill", func(o *outage) error { o.sink.Cut(); o.restart(); return errOther }, false, ""},
		{"another owner", func(o *outage) error {
			o.sink.Cut()
			o.slot.release(o.state.Epoch)
			_, err := o.parts.Store.Acquire(o.t.Context(), 0, "b", 0)
			return err
		}, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := newOutage(t)
			o.play("begin, write 1")
			o.end(test.end(o))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := o.begin(ctx)
			if !test.known {
				if err == nil || o.parts.Spools.Has(0) {
					t.Errorf("a spool has begun, and nobody knows after which batch")
				}
				return
			}
			mustDo(t, err)
			o.play("write 3, end, restore, await, write 4, end, log " + test.log)
		})
	}
}

// While the sink is away, the status has the reason why it is away now, not why it was at first.
func TestAnOutageHasItsLatestReason(t *testing.T) {
	o := newOutage(t)
	o.play(intoSpool)
	spool := o.m.Memory.(*spooling.Memory)
	if spool.Spooled().Why == "" {
		t.Error("the sink is away without a reason")
	}
	const now = "the certificate has expired"
	o.log.pinged = errors.New(now)
	ctx, cancel := context.WithCancel(t.Context())
	wait := spool.Start(ctx, func(error) {})
	servers.Await(t, "the status to say: "+now, func() (bool, error) { return spool.Spooled().Why == now, nil })
	cancel()
	wait()
	o.end(errOther)
}

// A batch that the sink has not acknowledged after a second is in a spool. So a process that is killed then loses nothing that it
// has read. If the sink takes the batch, there is no spool.
func TestABatchWithoutAnswerIsInASpool(t *testing.T) {
	for _, taken := range []bool{true, false} {
		t.Run(fmt.Sprint("taken: ", taken), func(t *testing.T) {
			t.Parallel()
			o := newOutage(t)
			o.play("begin")
			o.slot.early.flush = o.m.Following.Flush
			o.play("write 1")
			if taken {
				o.filter = commit.NewFilter(&o.slot.Config) // the batch has what an owner's first batch says of its settings
			}
			o.log.held = make(chan bool)
			ended := make(chan error)
			go func() { ended <- o.write("2") }()
			servers.Await(t, "a spool", func() (bool, error) { return o.parts.Spools.Has(0), nil })
			if n := o.settingsInSpool(); n != 1 {
				t.Errorf("the spool has %d records of the settings", n)
			}
			if taken {
				close(o.log.held)
				mustDo(t, <-ended)
				o.log.held = nil
				if o.parts.Spools.Has(0) {
					t.Error("there is a spool, and the sink has all")
				}
				o.play("write 3")
			} else {
				o.sink.Cut()
				o.slot.release(o.state.Epoch)
				o.play("restart, begin, write 3, end")
				if err := <-ended; !mayBeAway(err) {
					t.Errorf("the write has ended with %v", err)
				}
				o.log.held = nil
				o.play("restore, await")
			}
			o.play("write 4, end, log p1 p2 p3 p4")
		})
	}
}

// A sink that is away is asked often enough, however long that lasts, so that its spool is forwarded soon after its return.
func TestASinkThatIsAwayIsAskedOften(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	o.play(intoSpool)
	o.log.pinged, o.log.pings = errors.New("away"), make(chan bool)
	ctx, cancel := context.WithCancel(t.Context())
	wait := o.m.Memory.(*spooling.Memory).Start(ctx, func(error) {})
	for range 8 {
		asked := time.Now()
		if <-o.log.pings; time.Since(asked) > 5*time.Second {
			t.Errorf("it was not asked for %s", time.Since(asked))
		}
	}
	cancel()
	wait()
	o.end(errOther)
}

// lose writes two batches into a spool. The log meanwhile loses its records, and then the sink is back.
func (o *outage) lose() {
	o.t.Helper()
	o.play(intoSpool + ", write 2, write 3, end")
	o.exec(`delete from kubecdc_log.objects; delete from kubecdc_log.changes`)
	o.play("restore")
}

// wantCompared begins a session with the sink, which is to compare the log of pods at a version.
func (o *outage) wantCompared(version change.ResourceVersion) {
	o.t.Helper()
	o.awaitSink()
	defer o.end(errOther)
	stored, err := o.slot.Positions(o.t.Context(), nil)
	mustDo(o.t, err)
	lost, err := streams.LostVersions(o.t.Context(), o.parts.Store, stored)
	mustDo(o.t, err)
	if lost[exporttest.Pods.ID()] != version {
		o.t.Errorf("the log is to be compared at %v, want pods at %s; stored is %v", lost, version, stored)
	}
}

// The log has lost records while the sink was away, and a batch of the spool is damaged. The spool is put aside, and the loss is
// recorded as without a spool: the stream is compared.
func TestALossBeforeASpoolThatIsDamagedIsRecorded(t *testing.T) {
	for _, damaged := range []int{2, 3} {
		t.Run(fmt.Sprint("batch ", damaged), func(t *testing.T) {
			t.Parallel()
			o := newOutage(t)
			o.lose()
			file, err := sqlitefile.Own(t.Context(), filepath.Join(o.parts.Spools.Path, "slot-0.db"))
			mustDo(t, err)
			_, err = file.DB().ExecContext(t.Context(), `update log_changes set time = time + 60000
				where id = (select id + 1 from log_batches where seq = ?1)`, damaged)
			file.Close()
			mustDo(t, err)
			o.wantCompared(change.ResourceVersion(fmt.Sprint(damaged - 1)))
		})
	}
}

// The log has lost records before a spool that is forwarded. Then the process dies, and its folder is gone. The next owner compares the
// log nevertheless, also if a rebuild of the checkpoint was interrupted, or all of it is lost.
func TestALossBeforeASpoolOutlivesItsOwner(t *testing.T) {
	for name, meanwhile := range map[string]func(*outage){
		"killed":        func(*outage) {},
		"rebuilding":    func(o *outage) { o.clear() },
		"no checkpoint": func(o *outage) { o.parts.Store = newStore(o.t, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutage(t)
			o.lose()
			servers.Await(t, "the spool to be forwarded", func() (bool, error) {
				err := o.begin(t.Context())
				if err == nil {
					o.end(errOther)
					return false, nil
				}
				o.slot.release(o.state.Epoch)
				return fault.Is[*sinks.LostTailError](err), nil
			})
			o.play("log p2 p3")
			meanwhile(o)
			o.parts.Spools.Path = t.TempDir()
			o.restart()
			o.wantCompared("3")
		})
	}
}

// clear does what the start of a rebuild does.
func (o *outage) clear() {
	o.t.Helper()
	state, err := o.slot.acquire(o.t.Context())
	mustDo(o.t, err)
	mustDo(o.t, o.parts.Store.Clear(o.t.Context(), 0, state.Epoch, func(change.StreamID) bool { return true }))
	o.slot.release(state.Epoch)
}

func (o *outage) exec(statement string) {
	o.t.Helper()
	servers.Exec(o.t, o.url, statement)
}

// watched is a sink that a test watches and disturbs.
type watched struct {
	sinks.Sink
	opened       func() error // after Open; may be nil
	written      func() error // after Write; may be nil
	held         chan bool    // Write waits until it is closed; may be nil
	pinged       error        // returned by Ping, unless nil
	pings        chan bool    // has an element for each Ping; may be nil
	open, closed int          // number of logs
}

func (w *watched) Open(ctx context.Context, slot int, epoch int64, from sinks.Durable) (*sinks.Opened, error) {
	o, err := w.Sink.Open(ctx, slot, epoch, from)
	if err != nil {
		return nil, err
	}
	w.open++
	o.Log = &watchedLog{o.Log, w}
	if w.opened != nil {
		err = w.opened()
	}
	return o, err
}

func (w *watched) Ping(ctx context.Context) error {
	if w.pings != nil {
		select {
		case w.pings <- true:
		case <-ctx.Done():
		}
	}
	if w.pinged != nil {
		return w.pinged
	}
	return w.Sink.Ping(ctx)
}

type watchedLog struct {
	sinks.Log
	*watched
}

func (l *watchedLog) Write(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	if l.held != nil {
		select {
		case <-l.held:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	offsets, err := l.Log.Write(ctx, b)
	if err == nil && l.written != nil {
		err = l.written()
	}
	return offsets, err
}

func (l *watchedLog) Close() error {
	l.closed++
	return l.Log.Close()
}

// The log is closed if a spool that can't be forwarded can't be renamed.
func TestTheLogIsClosedIfASpoolCantBePutAside(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	o.play("begin, write 1, cut, fail 2, begin, write 3, end, restore")
	other, err := o.parts.Store.Acquire(t.Context(), 0, "b", 0)
	mustDo(t, err)
	found, err := o.parts.Sink.Open(t.Context(), 0, other.Epoch, sinks.Durable{Seq: other.Seq})
	mustDo(t, err)
	_, err = found.Log.Write(t.Context(), &change.Batch{Epoch: other.Epoch, Seq: other.Seq + 1,
		Positions: []change.Position{{Stream: exporttest.Pods.ID(), ResourceVersion: "7", Time: time.Now()}}})
	mustDo(t, err)
	mustDo(t, found.Log.Close())
	o.log.opened = func() error { // a file takes the place of the spool's folder
		return errors.Join(os.Rename(o.parts.Spools.Path, filepath.Join(t.TempDir(), "away")), os.WriteFile(o.parts.Spools.Path, nil, 0o600))
	}
	if err = o.begin(t.Context()); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("the error is %v", err)
	}
	if o.log.open != 3 || o.log.closed != 3 {
		t.Errorf("%d logs were opened, and %d closed", o.log.open, o.log.closed)
	}
}

var mustDo = require.NoError

// A process is killed whose slot had begun an empty spool. The next one reads on into it if the sink is away. If the log went on meanwhile, the
// file is removed, and not put aside, since it has no change.
func TestAnEmptySpoolOfAKilledProcess(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	empty := func() {
		positions, err := o.slot.Positions(t.Context(), nil)
		mustDo(t, err)
		first, _ := unacked(o.slot.sink)
		mustDo(t, o.parts.Spools.Begin(t.Context(), 0, o.parts.Log, positions, first, nil))
	}
	o.play("begin, write 1, flush")
	empty()
	o.play("write 2, end, restart, await, write 3, flush")
	empty()
	o.play("end, cut, restart, begin, write 4, end, restore, await, end, log p1 p2 p3 p4")
	if left, err := filepath.Glob(filepath.Join(o.parts.Spools.Path, "*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %q, %v", left, err)
	}
}
