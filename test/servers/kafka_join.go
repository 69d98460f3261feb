package servers

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Join starts another broker of the same cluster, whose controller is still k. So there can be two replicas of a partition, and a leader
// that moves. Stop it before k.
func (k *Kafka) Join(ctx context.Context) (*Kafka, error) {
	other, err := newKafka(KafkaOptions{Properties: k.opts.Properties, Older: k.opts.Older, TwoDisks: k.opts.TwoDisks})
	if err != nil {
		return nil, err
	}
	other.id, other.control, other.ClusterID = k.id+1, k.control, k.ClusterID
	if err := other.format(); err != nil {
		return nil, err
	}
	return other, launch(ctx, other, other.instance, other.Start)
}

// format makes the data folders for a node of its own.
func (k *Kafka) format() error {
	for _, data := range k.data() {
		text := fmt.Sprintf("version=1\nnode.id=%d\ndirectory.id=%s\ncluster.id=%s\n", k.id, kafkaID(), k.ClusterID)
		err := errors.Join(os.MkdirAll(data, 0o755), os.WriteFile(filepath.Join(data, "meta.properties"), []byte(text), 0o644))
		if err != nil {
			return fmt.Errorf("prepare Kafka's data folder: %w", err)
		}
	}
	return nil
}

func (k *Kafka) data() []string {
	if k.opts.TwoDisks {
		return []string{k.instance.path("data"), k.instance.path("data-2")}
	}
	return []string{k.instance.path("data")}
}

// kafkaID is a new id as Kafka makes them.
func kafkaID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	return base64.RawURLEncoding.EncodeToString(id)
}

// joined makes a mere broker's properties of the first node's.
func joined(all map[string]string, id int) {
	all["process.roles"] = "broker"
	all["node.id"] = fmt.Sprint(id)
	_, all["listeners"], _ = strings.Cut(all["listeners"], ",") // without the controller's
}
