package servers

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ChangePassword changes the password of KafkaUser, for logins by SCRAM-SHA-512. Connections that are open stay so.
func (k *Kafka) ChangePassword(ctx context.Context, password string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers...))
	if err != nil {
		return fmt.Errorf("change Kafka's password: %w", err)
	}
	defer client.Close()
	altered, err := kadm.NewClient(client).AlterUserSCRAMs(ctx, nil,
		[]kadm.UpsertSCRAM{{User: KafkaUser, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password}})
	for _, a := range altered {
		if err == nil {
			err = a.Err
		}
	}
	if err != nil {
		return fmt.Errorf("change Kafka's password: %w", err)
	}
	return nil
}
