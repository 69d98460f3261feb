package kubelease

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	clusterLabel = "kubecdc/cluster"
	slotLabel    = "kubecdc/slot" // absent on the lease of a member
)

// names gives the names of the objects of one cluster. They have a hash of its name, since that may be any text.
type names struct{ cluster string }

func (n names) slot(slot int) string { return fmt.Sprintf("kubecdc-%s-slot-%d", hash(n.cluster), slot) }
func (n names) member(owner string) string {
	return "kubecdc-" + hash(n.cluster) + "-member-" + hash(owner)
}
func (n names) selector() string { return clusterLabel + "=" + hash(n.cluster) }
func (n names) labels(name string) (l map[string]string) {
	l = map[string]string{clusterLabel: hash(n.cluster), "app.kubernetes.io/name": "kubecdc"}
	var slot int
	if _, err := fmt.Sscanf(name, n.slot(0)[:len(n.slot(0))-1]+"%d", &slot); err == nil {
		l[slotLabel] = strconv.Itoa(slot)
	}
	return l
}

func hash(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}

func holder(l *coordination.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func duration(l *coordination.Lease) time.Duration {
	if l.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
}

// acquireOrRenew makes the owner the holder, or gives the lease if another owner holds it. Of two updates of one
// resourceVersion the API server accepts one; the other is tried again.
func (l *Leases) acquireOrRenew(ctx context.Context, name, owner string, ttl time.Duration) (*coordination.Lease, error) {
	for {
		lease, err := l.api.get(ctx, name)
		if apierrors.IsNotFound(err) {
			fresh := &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: l.names.labels(name)}}
			err = l.api.create(ctx, heldBy(fresh, owner, ttl))
		} else if err == nil {
			if holder(lease) != owner && l.live(lease) {
				return lease, nil
			}
			err = l.api.update(ctx, heldBy(lease, owner, ttl))
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
	}
}

// heldBy makes the owner the holder of the lease.
func heldBy(l *coordination.Lease, owner string, ttl time.Duration) *coordination.Lease {
	now, seconds := metav1.NowMicro(), int32((ttl+time.Second-1)/time.Second)
	if holder(l) != owner {
		l.Spec.AcquireTime = &now
		transitions := int32(1)
		if l.Spec.LeaseTransitions != nil {
			transitions += *l.Spec.LeaseTransitions
		}
		l.Spec.LeaseTransitions = &transitions
	}
	l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &owner, &now, &seconds
	return l
}

// release gives up the slot's lease if the owner holds it.
func (l *Leases) release(ctx context.Context, slot int, owner string) error {
	lease, err := l.api.get(ctx, l.names.slot(slot))
	if err != nil || holder(lease) != owner {
		return err
	}
	nobody := ""
	lease.Spec.HolderIdentity = &nobody
	return l.api.update(ctx, lease)
}
