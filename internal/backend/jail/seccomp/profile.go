package seccomp

import (
	"fmt"
	"slices"

	docker "github.com/moby/profiles/seccomp"
	"golang.org/x/sys/unix"
)

// Constants of Docker's profile, from the OCI runtime specification.
const (
	actAllow   = "SCMP_ACT_ALLOW"
	actErrno   = "SCMP_ACT_ERRNO"
	opEqual    = "SCMP_CMP_EQ"
	opNotEqual = "SCMP_CMP_NE"
	opMasked   = "SCMP_CMP_MASKED_EQ"
)

// oldestKernel is the major number of the oldest supported kernel: a group for kernels since an
// older one always applies.
const oldestKernel = 5

// start is Docker's default profile for a process without capabilities: the calls that it allows,
// with the conditions on their arguments, and those that fail with ENOSYS.
type start struct {
	names []string // in the profile's order
	free  map[string]bool
	conds map[string][][]cond
	nosys []string
}

// cond is one condition on an argument in the profile.
type cond struct {
	arg        int
	op         string
	value, two uint64
}

// readDocker reads the profile for an architecture, by its Go name. It fails on anything that this
// package does not know.
func readDocker(goarch string) (*start, error) {
	p := docker.DefaultProfile()
	if p.DefaultAction != actErrno {
		return nil, fmt.Errorf("seccomp: Docker's profile answers %s by default", p.DefaultAction)
	}
	s := &start{free: map[string]bool{}, conds: map[string][][]cond{}}
	for _, g := range p.Syscalls {
		if !applies(g, goarch) {
			continue
		}
		switch {
		case g.Action == actAllow:
		case g.Action == actErrno && g.ErrnoRet != nil && *g.ErrnoRet == uint(unix.ENOSYS) && len(g.Args) == 0:
			s.nosys = append(s.nosys, g.Names...)
			continue
		default:
			return nil, fmt.Errorf("seccomp: Docker's profile answers %s for %q", g.Action, g.Names)
		}
		var all []cond
		for _, a := range g.Args {
			all = append(all, cond{int(a.Index), string(a.Op), a.Value, a.ValueTwo})
		}
		for _, name := range g.Names {
			if !slices.Contains(s.names, name) {
				s.names = append(s.names, name)
			}
			if len(all) == 0 {
				s.free[name] = true
			} else {
				s.conds[name] = append(s.conds[name], all)
			}
		}
	}
	return s, nil
}

// applies reports whether a group applies to a process without capabilities.
func applies(g *docker.Syscall, goarch string) bool {
	if in := g.Includes; in != nil {
		if len(in.Caps) > 0 || len(in.Arches) > 0 && !slices.Contains(in.Arches, goarch) {
			return false
		}
		if in.MinKernel != nil && in.MinKernel.Kernel >= oldestKernel {
			return false
		}
	}
	if ex := g.Excludes; ex != nil {
		// A group that excludes a capability applies to a process without it.
		return !slices.Contains(ex.Arches, goarch)
	}
	return true
}

// rule is the profile's rule for one call.
func (s *start) rule(name string) (rule, error) {
	r := rule{name: name, otherwise: unix.EPERM}
	if s.free[name] {
		return r, nil
	}
	for _, alternative := range s.conds[name] {
		var tests []test
		for _, c := range alternative {
			if c.value>>32 != 0 || c.two>>32 != 0 {
				return r, fmt.Errorf("seccomp: Docker's profile compares 64 bits for %s", name)
			}
			switch c.op {
			case opEqual:
				tests = append(tests, is(c.arg, uint32(c.value)))
			case opNotEqual:
				tests = append(tests, isNot(c.arg, uint32(c.value)))
			case opMasked:
				tests = append(tests, test{arg: c.arg, mask: uint32(c.value), op: equal, val: uint32(c.two)})
			default:
				return r, fmt.Errorf("seccomp: Docker's profile has the condition %s for %s; narrow the call by hand", c.op, name)
			}
		}
		r.anyOf = append(r.anyOf, tests)
	}
	return r, nil
}
