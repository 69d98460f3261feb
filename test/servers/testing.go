package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/test/require"
)

// Main is for TestMain: it runs the tests, then stops every server, also on Ctrl-C.
//
//	func TestMain(m *testing.M) { servers.Main(m) }
func Main(m interface{ Run() int }) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-interrupted
		_ = StopAll()
		os.Exit(130)
	}()
	code := m.Run()
	if err := StopAll(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

var (
	sharedKube = sync.OnceValues(func() (*Kubernetes, error) {
		return StartKubernetes(context.Background(), KubernetesOptions{})
	})
	sharedKafka = sync.OnceValues(func() (*Kafka, error) {
		return StartKafka(context.Background(), KafkaOptions{Lanes: 8, Properties: Impatient})
	})
	sharedPostgres = sync.OnceValues(func() (*Postgres, error) {
		return StartPostgres(context.Background(), PostgresOptions{})
	})
)

var sharedRegistry = sync.OnceValues(func() (*Registry, error) { return StartRegistry(context.Background()) })

// sharedPgBouncer pools by transaction, as managed databases do.
var sharedPgBouncer = sync.OnceValues(func() (*PgBouncer, error) {
	p, err := sharedPostgres()
	if err != nil {
		return nil, err
	}
	return StartPgBouncer(context.Background(), p, "transaction")
})

// Kube is the one cluster of this test process. Tests that break it start their own with StartKubernetes. The package needs a
// TestMain: see Main.
func Kube(t testing.TB) *Kubernetes { return shared(t, "Kubernetes", sharedKube) }

// SharedKafka is the one broker of this test process.
func SharedKafka(t testing.TB) *Kafka { return shared(t, "Kafka", sharedKafka) }

// Impatient has a broker check five times a second for transactions that are open for too long. By default it does so every ten seconds.
var Impatient = map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}

// Lane is a way to the broker that is this test's alone, to break: a proxy that the broker advertises to whoever comes through
// it.
func (k *Kafka) Lane(t testing.TB) *Proxy {
	t.Helper()
	select {
	case l := <-k.free:
		t.Cleanup(func() {
			l.Retarget(l.behind)
			if err := l.Restore(); err == nil { // else the broker is stopped
				k.free <- l
			}
		})
		return l.Proxy
	default:
		t.Fatal("other tests have all lanes of the broker: see KafkaOptions.Lanes")
		return nil
	}
}

// SharedPostgres is the one Postgres of this test process.
func SharedPostgres(t testing.TB) *Postgres { return shared(t, "Postgres", sharedPostgres) }

// SharedRegistry is the one schema registry of this test process. Without KUBECDC_TEST_REGISTRY the test is skipped: `make
// registry` sets it.
func SharedRegistry(t testing.TB) *Registry {
	t.Helper()
	if os.Getenv("KUBECDC_TEST_REGISTRY") == "" {
		t.Skip("this test needs a schema registry: make registry runs it")
	}
	return shared(t, "schema registry", sharedRegistry)
}

// Slow marks a test of a rare event that takes long, or much of the machine. Its name begins with TestSlow, by which `make slow` finds
// it. KUBECDC_TEST_SLOW=all runs each. 2/5 runs the third fifth of them, so that five runs of CI have run all.
func Slow(t testing.TB) {
	t.Helper()
	var part, parts uint32
	share := os.Getenv("KUBECDC_TEST_SLOW")
	switch _, err := fmt.Sscanf(share, "%d/%d", &part, &parts); {
	case share == "all":
	case share == "":
		t.Skip("this test is slow: make slow runs it")
	case err != nil || parts == 0:
		t.Fatalf("KUBECDC_TEST_SLOW is %q: set it to all, or to a share such as 2/5", share)
	default:
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(t.Name()))
		if hash.Sum32()%parts != part%parts {
			t.Skipf("this test is not in the share %s", share)
		}
	}
}

// Need marks a test that uses real servers. `make unit` (go test -short) skips it.
func Need(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("this test needs real servers: make test runs it")
	}
	admit(t)
}

func shared[S any](t testing.TB, name string, start func() (S, error)) S {
	t.Helper()
	Need(t)
	s, err := start()
	if err != nil {
		t.Fatalf("this test needs a real %s server: %v\nto install what is missing: %s", name, err, howToInstall)
	}
	return s
}

// Namespace makes a namespace for one test in the shared cluster.
func Namespace(t testing.TB) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(Kube(t).Config)
	must(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: UniqueName()}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	return ns.Name
}

// Database makes a database for one test in the shared Postgres, dropped when the test ends, and returns its URL.
func Database(t testing.TB) string {
	t.Helper()
	p := SharedPostgres(t)
	return p.URLAt(p.Address, database(t, p))
}

// Connect returns a connection to a database, which is open until the test ends.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Exec executes a statement in a database.
func Exec(t testing.TB, url, statement string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err == nil {
		defer conn.Close(context.Background())
		_, err = conn.Exec(context.Background(), statement, args...)
	}
	must(t, err)
}

// PooledDatabase is Database by way of a real PgBouncer that pools by transaction.
func PooledDatabase(t testing.TB) string {
	t.Helper()
	p := SharedPostgres(t)
	return p.URLAt(shared(t, "PgBouncer", sharedPgBouncer).Address, database(t, p))
}

// OddDatabase is PooledDatabase where the database has settings that nobody would expect: what a statement relies on must be
// asked for. Its URL is as the hints of errors recommend it for poolers, and where connections are few. With debug5
// Postgres sends messages between statements, too. PgBouncer 1.18 drops such sessions, and may lose its own SET. Its client then waits for
// ever.
func OddDatabase(t testing.TB) string {
	t.Helper()
	p := SharedPostgres(t)
	name := database(t, p)
	conn := Connect(t, p.URLAt(p.Address, name))
	for _, odd := range []string{"client_encoding = latin1", "standard_conforming_strings = off", "datestyle = 'SQL, DMY'",
		"timezone = 'Asia/Kathmandu'", "intervalstyle = sql_standard", "bytea_output = escape", "search_path = ''", "array_nulls = off",
		"transform_null_equals = on", "quote_all_identifiers = on", "extra_float_digits = -15", "xmloption = document",
		"default_transaction_deferrable = on", "row_security = off",
		"check_function_bodies = off", "plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_indexscan = off",
		"work_mem = '64kB'", "join_collapse_limit = 1", "plpgsql.extra_errors = 'shadowed_variables, too_many_rows'",
		"plpgsql.variable_conflict = use_column", "client_min_messages = debug1", "synchronous_commit = off"} {
		if _, err := conn.Exec(t.Context(), "alter database "+pgx.Identifier{name}.Sanitize()+" set "+odd); err != nil {
			t.Fatal(odd, err)
		}
	}
	return p.URLAt(shared(t, "PgBouncer", sharedPgBouncer).Address, name) + "&pool_max_conns=2&default_query_exec_mode=cache_describe&TimeZone=Asia/Kathmandu"
}

func database(t testing.TB, p *Postgres) (name string) {
	t.Helper()
	name = UniqueName()
	_, err := p.CreateDatabase(t.Context(), name)
	must(t, err)
	t.Cleanup(func() {
		if err := p.DropDatabase(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// UniqueName is a name that nothing else has: good for namespaces, topics and databases.
func UniqueName() string { return "test-" + strings.ToLower(rand.Text()[:10]) }

var must = require.NoError
