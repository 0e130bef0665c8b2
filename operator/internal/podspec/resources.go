package podspec

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

// resources returns limits and requests for cpu and memory. Every pod has all four: a limit of zero would be none at all, so zero
// and less count as absent.
func (p Pod) resources() *corev1ac.ResourceRequirementsApplyConfiguration {
	asked := v1alpha1.Resources{}
	if p.Function.Spec.Resources != nil {
		asked = *p.Function.Spec.Resources
	}
	memory := limit(asked, corev1.ResourceMemory, quantity(p.Defaults.Memory))
	cpu := limit(asked, corev1.ResourceCPU, quantity(p.Defaults.CPU))
	requests := corev1.ResourceList{
		corev1.ResourceMemory: orDefault(asked.Requests, corev1.ResourceMemory, memory),
		corev1.ResourceCPU:    orDefault(asked.Requests, corev1.ResourceCPU, share(cpu, quantity(p.Defaults.CPURequest), quantity(p.Defaults.CPU))),
	}
	return corev1ac.ResourceRequirements().
		WithLimits(corev1.ResourceList{corev1.ResourceMemory: memory, corev1.ResourceCPU: cpu}).
		WithRequests(requests)
}

// limit returns the limit asked for, or the default; a request above the default raises it.
func limit(asked v1alpha1.Resources, name corev1.ResourceName, fallback resource.Quantity) resource.Quantity {
	value := orDefault(asked.Limits, name, fallback)
	if _, given := positive(asked.Limits, name); given {
		return value
	}
	if request, given := positive(asked.Requests, name); given && request.Cmp(value) > 0 {
		return request
	}
	return value
}

func orDefault(list corev1.ResourceList, name corev1.ResourceName, fallback resource.Quantity) resource.Quantity {
	if value, ok := positive(list, name); ok {
		return value
	}
	return fallback
}

func positive(list corev1.ResourceList, name corev1.ResourceName) (resource.Quantity, bool) {
	value, ok := list[name]
	return value, ok && value.Sign() > 0
}

// share returns the part of a cpu limit that part is of whole: at least a thousandth of a core, and never more than the limit.
func share(limit, part, whole resource.Quantity) resource.Quantity {
	if whole.Sign() <= 0 || part.Sign() <= 0 {
		return limit
	}
	milli := limit.AsApproximateFloat64() * 1000 * part.AsApproximateFloat64() / whole.AsApproximateFloat64()
	milli = math.Max(1, math.Min(math.Round(milli), math.MaxInt64/2))
	request := resource.NewMilliQuantity(int64(milli), resource.DecimalSI)
	if request.Cmp(limit) > 0 {
		return limit
	}
	return *request
}
