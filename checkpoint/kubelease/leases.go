// Package kubelease keeps leases and membership in Lease objects of the cluster (coordination.k8s.io), so that no lease depends
// on the checkpoint's database. The checkpoint still fences: every epoch comes from its Store. The package knows nothing of
// streams.
package kubelease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"kubecdc/checkpoint"
	"kubecdc/internal/kubeapi"
)

// Leases implements checkpoint.Leases. A lease runs until its object was not changed for its duration, by this process's own
// clock: clocks need not agree, as in client-go's leader election.
type Leases struct {
	store Store
	api   api
	names names

	mu       sync.Mutex
	observed map[string]observation // by the object's name
	mine     map[int]string         // slot → owner, of those acquired here
}

// Store is the part of a checkpoint store that gives the epochs and knows the layout.
type Store interface {
	checkpoint.Leases
	checkpoint.Epochs
}

type observation struct {
	version string
	at      time.Time
}

var _ checkpoint.Leases = (*Leases)(nil)

// New prepares leases in a namespace; the store gives the epochs. The HTTP client is one that was made of the configuration, and
// refuses another cluster at the same address; nil: one that trusts the address.
func New(config *rest.Config, client *http.Client, namespace, cluster string, store Store) (*Leases, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 100, 200
	group, err := kubeapi.Group(config, client, coordination.SchemeGroupVersion, coordination.AddToScheme)
	if err != nil {
		return nil, fmt.Errorf("prepare leases in namespace %s: %w", namespace, err)
	}
	return &Leases{store: store, api: api{group, namespace}, names: names{cluster},
		observed: map[string]observation{}, mine: map[int]string{}}, nil
}

// Acquire takes the slot's lease, and then an epoch.
func (l *Leases) Acquire(ctx context.Context, slot int, owner string, ttl time.Duration) (checkpoint.SlotState, error) {
	lease, err := l.acquireOrRenew(ctx, l.names.slot(slot), owner, ttl)
	if err != nil {
		return checkpoint.SlotState{}, fmt.Errorf("acquire the lease of slot %d: %w", slot, err)
	}
	if lease != nil {
		return checkpoint.SlotState{}, &checkpoint.HeldError{Slot: slot, Owner: holder(lease), Until: time.Now().Add(duration(lease))}
	}
	state, err := l.store.Acquire(ctx, slot, owner, 0)
	if err != nil {
		return state, errors.Join(err, l.release(ctx, slot, owner))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mine[slot] = owner
	return state, nil
}

// Renew extends the lease. Where another owner has it, the epoch tells whether that one has acquired the slot.
func (l *Leases) Renew(ctx context.Context, slot int, epoch int64, ttl time.Duration) error {
	other, err := l.acquireOrRenew(ctx, l.names.slot(slot), l.ownerOf(slot), ttl)
	if err != nil {
		return fmt.Errorf("renew the lease of slot %d: %w", slot, err)
	}
	if other != nil {
		held := &checkpoint.HeldError{Slot: slot, Owner: holder(other), Until: time.Now().Add(duration(other))}
		return cmp.Or(l.store.Check(ctx, slot, epoch, 0), error(held))
	}
	return l.store.Renew(ctx, slot, epoch, 0)
}

// Release ends the lease at once.
func (l *Leases) Release(ctx context.Context, slot int, epoch int64) error {
	if err := l.store.Release(ctx, slot, epoch); err != nil {
		return err
	}
	return l.release(ctx, slot, l.ownerOf(slot))
}

// Heartbeat says that the owner lives, and who else does. The layout is the store's.
func (l *Leases) Heartbeat(ctx context.Context, owner string, ttl time.Duration) (checkpoint.Replicas, error) {
	if _, err := l.store.Heartbeat(ctx, owner, 0); err != nil {
		return checkpoint.Replicas{}, err
	}
	if ttl > 0 {
		if _, err := l.acquireOrRenew(ctx, l.names.member(owner), owner, ttl); err != nil {
			return checkpoint.Replicas{}, fmt.Errorf("say that this replica lives: %w", err)
		}
	}
	r, err := l.look(ctx, owner)
	if err != nil {
		return r, fmt.Errorf("see who else lives: %w", err)
	}
	return r, nil
}

// Leave withdraws the owner's heartbeat.
func (l *Leases) Leave(ctx context.Context, owner string) error {
	err := l.api.delete(ctx, l.names.member(owner), "")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Owners returns who owns each slot of a cluster, for a reader that has not observed the leases before. A lease that was not
// renewed for twice its duration by now has ended: the clock of its owner may be a little off. The client is as New's.
func Owners(
	ctx context.Context, config *rest.Config, client *http.Client, namespace, cluster string, now time.Time,
) (map[int]string, error) {
	l, err := New(config, client, namespace, cluster, nil)
	if err != nil {
		return nil, err
	}
	list, err := l.api.list(ctx, l.names.selector())
	if err == nil && len(list.Items) == 0 {
		err = fmt.Errorf("there is none of cluster %s: set KUBECDC_LEASES_NAMESPACE to the exporter's", cluster)
	}
	if err != nil {
		return nil, fmt.Errorf("read the leases in namespace %s: %w", namespace, err)
	}
	owners := map[int]string{}
	for i := range list.Items {
		lease := &list.Items[i]
		slot, err := strconv.Atoi(lease.Labels[slotLabel])
		if renewed := lease.Spec.RenewTime; err == nil && renewed != nil && now.Sub(renewed.Time) < 2*duration(lease) {
			owners[slot] = holder(lease)
		}
	}
	return owners, nil
}

// look lists all leases of the cluster, and deletes those of members that died.
func (l *Leases) look(ctx context.Context, self string) (checkpoint.Replicas, error) {
	r := checkpoint.Replicas{Slots: map[int]string{}}
	list, err := l.api.list(ctx, l.names.selector())
	if err != nil {
		return r, err
	}
	members := map[string]bool{self: true}
	for i := range list.Items {
		lease := &list.Items[i]
		slot, err := strconv.Atoi(lease.Labels[slotLabel])
		switch live := l.live(lease); {
		case live && err == nil:
			r.Slots[slot] = holder(lease)
		case live:
			members[holder(lease)] = true
		case err != nil:
			_ = l.api.delete(ctx, lease.Name, lease.ResourceVersion)
		}
	}
	r.Members = slices.Sorted(maps.Keys(members))
	return r, nil
}

func (l *Leases) ownerOf(slot int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mine[slot]
}

// live reports whether the lease is held, and was changed no longer ago than its duration.
func (l *Leases) live(lease *coordination.Lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.observed[lease.Name]
	if s.version != lease.ResourceVersion {
		s = observation{lease.ResourceVersion, time.Now()}
		l.observed[lease.Name] = s
	}
	return holder(lease) != "" && time.Since(s.at) < duration(lease)
}
