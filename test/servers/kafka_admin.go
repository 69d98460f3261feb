package servers

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaRule is an ACL of KafkaUser (KafkaOptions.ACLs) for each of the operations. It is for a topic, a transactional id or a group,
// for all that begin with a prefix, or for the cluster.
type KafkaRule struct {
	Topic         string
	Transactional string // in place of Topic
	Group         string // in place of Topic
	Cluster       bool   // in place of Topic
	Prefixed      bool
	Deny          bool // wins over any that allow
	Operations    []kadm.ACLOperation
}

func (r KafkaRule) builder() *kadm.ACLBuilder {
	b := kadm.NewACLs().Operations(r.Operations...).ResourcePatternType(kadm.ACLPatternLiteral)
	if r.Prefixed {
		b.ResourcePatternType(kadm.ACLPatternPrefixed)
	}
	switch {
	case r.Topic != "":
		b.Topics(r.Topic)
	case r.Group != "":
		b.Groups(r.Group)
	case r.Cluster:
		b.Clusters()
	default:
		b.TransactionalIDs(r.Transactional)
	}
	if user := "User:" + KafkaUser; r.Deny {
		b.Deny(user).DenyHosts("*")
	} else {
		b.Allow(user).AllowHosts("*")
	}
	return b
}

// Rule makes ACLs, and returns once the broker knows them.
func (k *Kafka) Rule(ctx context.Context, rules ...KafkaRule) error {
	return k.eachRule(rules, func(admin *kadm.Client, b *kadm.ACLBuilder) (errs error) {
		made, err := admin.CreateACLs(ctx, b)
		for _, m := range made {
			errs = errors.Join(errs, m.Err)
		}
		return errors.Join(err, errs, learned(ctx, admin, b, true))
	})
}

// Unrule removes them, and returns once the broker knows that.
func (k *Kafka) Unrule(ctx context.Context, rules ...KafkaRule) error {
	return k.eachRule(rules, func(admin *kadm.Client, b *kadm.ACLBuilder) (errs error) {
		gone, err := admin.DeleteACLs(ctx, b)
		for _, g := range gone {
			errs = errors.Join(errs, g.Err)
			if len(g.Deleted) == 0 {
				errs = errors.Join(errs, errors.New("there is none to remove"))
			}
		}
		return errors.Join(err, errs, learned(ctx, admin, b, false))
	})
}

// learned waits until the broker knows ACLs, or no longer: its controller answers before the broker has read what it says.
func learned(ctx context.Context, admin *kadm.Client, b *kadm.ACLBuilder, want bool) error {
	return Until(ctx, "the broker to know it", func() (bool, error) {
		known, err := admin.DescribeACLs(ctx, b)
		all := err == nil
		for _, k := range known {
			all = all && k.Err == nil && (len(k.Described) > 0) == want
		}
		return all, nil
	})
}

func (k *Kafka) eachRule(rules []KafkaRule, do func(*kadm.Client, *kadm.ACLBuilder) error) error {
	return k.administer(func(admin *kadm.Client) error {
		for _, r := range rules {
			if err := do(admin, r.builder()); err != nil {
				return fmt.Errorf("change Kafka's ACLs (%+v): %w", r, err)
			}
		}
		return nil
	})
}

// ChangePassword changes the password of KafkaUser, for logins by SCRAM-SHA-512. It does not end open connections.
func (k *Kafka) ChangePassword(ctx context.Context, password string) error {
	return k.administer(func(admin *kadm.Client) error {
		altered, err := admin.AlterUserSCRAMs(ctx, nil,
			[]kadm.UpsertSCRAM{{User: KafkaUser, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password}})
		for _, a := range altered {
			err = errors.Join(err, a.Err)
		}
		return err
	})
}

func (k *Kafka) administer(do func(*kadm.Client) error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers...))
	if err != nil {
		return fmt.Errorf("administer Kafka: %w", err)
	}
	defer client.Close()
	return do(kadm.NewClient(client))
}
