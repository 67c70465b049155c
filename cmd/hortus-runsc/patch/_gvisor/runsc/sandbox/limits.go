package sandbox

import (
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// specLimits returns the memory that programs see, total at most, and the flags for their
// share of the processors. Control groups around this process enforce both: they are not
// looked at, because what is around it may be larger.
func specLimits(spec *specs.Spec, total uint64) (flags []string, mem uint64) {
	if spec.Linux == nil || spec.Linux.Resources == nil {
		return nil, total
	}
	r := spec.Linux.Resources
	if m := r.Memory; m != nil && m.Limit != nil && *m.Limit > 0 {
		total = min(total, uint64(*m.Limit))
	}
	if c := r.CPU; c != nil && c.Quota != nil && c.Period != nil {
		flags = []string{"--cpu-quota", strconv.FormatInt(*c.Quota, 10), "--cpu-period", strconv.FormatUint(*c.Period, 10)}
	}
	return flags, total
}
