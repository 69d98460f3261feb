package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"

	"kubecdc/test/oracle"
	"kubecdc/test/servers"
)

// Avro with a real registry that demands compatibility in both directions survives kill -9 and the loss of the checkpoint.
func TestRegistryEndToEnd(t *testing.T) {
	r := demandingRegistry(t)
	throughFaults(t, []string{"avro"}, "KUBECDC_SCHEMA_REGISTRY_URL", r.URL)
}

func demandingRegistry(t *testing.T) *servers.Registry {
	r := servers.SharedRegistry(t)
	client, err := sr.NewClient(sr.URLs(r.URL))
	must(t, err)
	for _, result := range client.SetCompatibility(t.Context(), sr.SetCompatibility{Level: sr.CompatFullTransitive}) {
		must(t, result.Err)
	}
	avroSchemas.client = client
	return r
}

// The registry is away for ten times the lease and the transaction timeout. It is cut off before the first batch, and silent when a
// new process reads its log back. Each session waits and says so. A process that gets SIGTERM meanwhile ends at once.
func TestRegistryAwayForLong(t *testing.T) {
	r := demandingRegistry(t)
	w, kinds := NewFragileWorld(t), []Kind{ConfigMaps, Widgets}
	writer := w.Writer(t, kinds).Fill(10)
	env := w.With("KUBECDC_ENCODING", "avro", "KUBECDC_SCHEMA_REGISTRY_URL", r.URL, "KUBECDC_RESOURCES", Resources(kinds),
		"KUBECDC_KAFKA_TRANSACTION_TIMEOUT", txnTimeout.String(), "KUBECDC_LEASE_DURATION", "1s",
		"KUBECDC_CHECKPOINT_INTERVAL", "1m") // so that there is a tail to read back
	var e *Exporter
	for _, outage := range []struct {
		begin func()
		says  string
	}{{r.Proxy.Cut, "get the schemas of topic "}, {r.Proxy.Freeze, "rolled forward"}} {
		outage.begin()
		t.Cleanup(func() { must(t, r.Proxy.Restore()) })
		mend := time.After(10 * txnTimeout)
		for range 2 { // the first one is stopped while it waits
			if e != nil {
				e.stop(t)
			}
			e = StartExporter(t, "an exporter", env)
			e.awaitWrong(t, outage.says)
		}
		writer.Run(40)
		<-mend
		must(t, r.Proxy.Restore())
		w.AwaitComplete(t, writer, kinds)
		if n := strings.Count(e.Tail(1<<20), "slot acquired"); n != 1 {
			t.Errorf("%d sessions instead of one", n)
		}
		e.Kill()
		e = nil
	}
	Judge(t, w.Kube, w.Read(t), w.Prefix, kinds).Demand(t, 0)
}

func init() { oracle.Encodings["avro"] = parseAvro }

// avroSchemas has the registry's parsed schemas.
var avroSchemas struct {
	client *sr.Client
	byID   sync.Map
}

// parseAvro reads a record with an Avro library, by the rules of docs/encodings.md.
func parseAvro(r *kgo.Record) (Record, error) {
	key, err := readAvro(r.Key)
	if err != nil {
		return Record{}, err
	}
	plain := &kgo.Record{Key: key}
	if r.Value != nil {
		if plain.Value, err = readAvro(r.Value); err != nil {
			return Record{}, err
		}
	}
	return oracle.ParsePlain(plain)
}

func readAvro(wire []byte) ([]byte, error) {
	if len(wire) < 5 || wire[0] != 0 {
		return nil, errors.New("not in the wire format of a schema registry")
	}
	id := int(wire[1])<<24 | int(wire[2])<<16 | int(wire[3])<<8 | int(wire[4])
	known, ok := avroSchemas.byID.Load(id)
	if !ok {
		text, err := avroSchemas.client.SchemaTextByID(context.Background(), id)
		if err != nil {
			return nil, err
		}
		parsed, err := avro.Parse(text)
		if err != nil {
			return nil, err
		}
		known = parsed
		avroSchemas.byID.Store(id, parsed)
	}
	schema := known.(*avro.Schema)
	var value any
	if rest, err := schema.Decode(wire[5:], &value); err != nil || len(rest) > 0 {
		return nil, errors.Join(err, errors.New("not of its schema"))
	}
	return json.Marshal(plainAvro(schema.Root().ExpandReferences(), value))
}

// plainAvro returns the JSON of a value.
func plainAvro(n *avro.SchemaNode, value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		for i := range v {
			v[i] = plainAvro(branch(n).Items, v[i])
		}
	case string:
		if _, err := strconv.Atoi(v); branch(n).Props["connect.name"] != nil || branch(n).Props["format"] != nil && err == nil {
			return json.RawMessage(v)
		}
	case map[string]any:
		if n = branch(n); n.Type == "map" {
			for name := range v {
				v[name] = plainAvro(n.Values, v[name])
			}
			return v
		}
		object := map[string]any{}
		for _, f := range n.Fields {
			name := f.Name
			if member, ok := f.Props["json"].(string); ok {
				name = member
			}
			plain := plainAvro(&f.Type, v[f.Name])
			if _, extra := f.Props["open"]; extra && plain != nil {
				var others map[string]any
				_ = json.Unmarshal(plain.(json.RawMessage), &others)
				maps.Copy(object, others)
			} else if plain != nil {
				object[name] = plain
			}
		}
		return object
	}
	return value
}

func branch(n *avro.SchemaNode) *avro.SchemaNode {
	if n.Type == "union" {
		return &n.Branches[1]
	}
	return n
}
