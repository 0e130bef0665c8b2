package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/operator/internal/config"
)

const (
	// defaultLimits is the name of the ResourceQuota and the LimitRange that come from the configuration.
	defaultLimits = "sless-default"
	// copySuffix ends the names of those that come from the user's namespace.
	copySuffix = "user"
)

// limits are the ResourceQuotas and LimitRanges of a tenant's namespace, by their names.
type limits struct {
	quotas map[string]corev1.ResourceQuotaSpec
	ranges map[string]corev1.LimitRangeSpec
}

// limitsOf returns what bounds the pods of a user's namespace, so that functions are no way round it, or else what the configuration gives.
func limitsOf(quotas []corev1.ResourceQuota, ranges []corev1.LimitRange, defaults config.Tenants) limits {
	l := limits{map[string]corev1.ResourceQuotaSpec{}, map[string]corev1.LimitRangeSpec{}}
	bounded := false
	for _, quota := range quotas {
		spec := quota.Spec.DeepCopy()
		maps.DeleteFunc(spec.Hard, func(name corev1.ResourceName, _ resource.Quantity) bool { return !boundsPods(name) })
		if len(spec.Hard) > 0 {
			l.quotas[names.Child(quota.Name, copySuffix)] = *spec
			// One with a scope speaks of some pods alone.
			bounded = bounded || len(spec.Scopes) == 0 && spec.ScopeSelector == nil
		}
	}
	if defaults.ResourceQuota != nil && !bounded {
		l.quotas[defaultLimits] = *defaults.ResourceQuota
	}
	for _, limitRange := range ranges {
		spec := limitRange.Spec.DeepCopy()
		spec.Limits = slices.DeleteFunc(spec.Limits, func(item corev1.LimitRangeItem) bool {
			return item.Type != corev1.LimitTypeContainer && item.Type != corev1.LimitTypePod
		})
		if len(spec.Limits) > 0 {
			l.ranges[names.Child(limitRange.Name, copySuffix)] = *spec
		}
	}
	if defaults.LimitRange != nil && len(l.ranges) == 0 {
		l.ranges[defaultLimits] = *defaults.LimitRange
	}
	return l
}

// boundsPods says whether a resource of a quota is one that pods use. Counts of other objects, which sless itself makes in a tenant's
// namespace, are left out.
func boundsPods(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, "count/pods", corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	case corev1.ResourceRequestsStorage:
		return false
	}
	return slices.ContainsFunc([]string{corev1.DefaultResourceRequestsPrefix, "limits.", corev1.ResourceHugePagesPrefix}, func(prefix string) bool {
		return strings.HasPrefix(string(name), prefix)
	})
}

// build returns the objects, in the order of their names.
func (l limits) build(made string) ([]runtime.ApplyConfiguration, error) {
	var objects []runtime.ApplyConfiguration
	for _, name := range slices.Sorted(maps.Keys(l.quotas)) {
		spec := corev1ac.ResourceQuotaSpec()
		if err := convert(l.quotas[name], spec); err != nil {
			return nil, err
		}
		objects = append(objects, corev1ac.ResourceQuota(name, made).WithLabels(ownLabels()).WithSpec(spec))
	}
	for _, name := range slices.Sorted(maps.Keys(l.ranges)) {
		spec := corev1ac.LimitRangeSpec()
		if err := convert(l.ranges[name], spec); err != nil {
			return nil, err
		}
		objects = append(objects, corev1ac.LimitRange(name, made).WithLabels(ownLabels()).WithSpec(spec))
	}
	return objects, nil
}

// convert makes an apply configuration of a spec.
func convert(spec, into any) error {
	text, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("convert %T: %w", spec, err)
	}
	return nil
}

// userLimits reads what bounds the pods of a user's namespace.
func (t *Tenants) userLimits(ctx context.Context, user string) (limits, error) {
	var quotas corev1.ResourceQuotaList
	var ranges corev1.LimitRangeList
	for _, list := range []client.ObjectList{&quotas, &ranges} {
		if err := t.Client.List(ctx, list, client.InNamespace(user)); err != nil {
			return limits{}, fmt.Errorf("list %T of %s: %w", list, user, err)
		}
	}
	return limitsOf(quotas.Items, ranges.Items, t.Limits), nil
}

// dropLimits deletes what bounded a tenant's namespace before and is not wanted any more.
func (t *Tenants) dropLimits(ctx context.Context, made string, wanted limits) error {
	own := []client.ListOption{client.InNamespace(made), client.MatchingLabels(ownLabels())}
	for _, list := range []client.ObjectList{&corev1.ResourceQuotaList{}, &corev1.LimitRangeList{}} {
		if err := t.Client.List(ctx, list, own...); err != nil {
			return fmt.Errorf("list %T of %s: %w", list, made, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			_, isQuota := item.(*corev1.ResourceQuota)
			_, quota := wanted.quotas[object.GetName()]
			_, limitRange := wanted.ranges[object.GetName()]
			if isQuota && quota || !isQuota && limitRange {
				return nil
			}
			return client.IgnoreNotFound(t.Client.Delete(ctx, object))
		})
		if err != nil {
			return fmt.Errorf("delete of %T of %s what is not wanted any more: %w", list, made, err)
		}
	}
	return nil
}
