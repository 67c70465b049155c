package seccomp

import (
	"slices"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	docker "github.com/moby/profiles/seccomp"
	"golang.org/x/sys/unix"
)

// architectures are those that sandboxes run on.
var architectures = []string{"amd64", "arm64"}

// dockerAllows answers for Docker's profile by its own words, apart from the
// code that derives the policy from it. Arguments are what the kernel sees of
// them: 32 bits.
func dockerAllows(goarch, name string, args [6]uint64) bool {
	for _, g := range docker.DefaultProfile().Syscalls {
		if g.Action != "SCMP_ACT_ALLOW" || !slices.Contains(g.Names, name) {
			continue
		}
		if g.Includes != nil && (len(g.Includes.Caps) > 0 || len(g.Includes.Arches) > 0 && !slices.Contains(g.Includes.Arches, goarch)) {
			continue
		}
		if g.Excludes != nil && slices.Contains(g.Excludes.Arches, goarch) {
			continue
		}
		holds := true
		for _, a := range g.Args {
			v := uint64(uint32(args[a.Index]))
			switch a.Op {
			case "SCMP_CMP_EQ":
				holds = holds && v == a.Value
			case "SCMP_CMP_NE":
				holds = holds && v != a.Value
			case "SCMP_CMP_LT":
				holds = holds && v < a.Value
			case "SCMP_CMP_GT":
				holds = holds && v > a.Value
			case "SCMP_CMP_MASKED_EQ":
				holds = holds && v&a.Value == a.ValueTwo
			default:
				return false
			}
		}
		if holds {
			return true
		}
	}
	return false
}

// values are arguments worth trying: small numbers, single bits, what the
// profile and the policy compare with, and a bit above the lower half.
func values(p *Policy) []uint64 {
	var out []uint64
	for i := range uint64(48) {
		out = append(out, i, 1<<i, 1<<i|1<<40)
	}
	out = append(out, 0xffffffff, 0x20008, ^uint64(0))
	for _, r := range p.rules {
		for _, tests := range slices.Concat(r.anyOf, r.pretend) {
			for _, c := range tests {
				out = append(out, uint64(c.val), uint64(c.val)|high, uint64(c.mask))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestNothingBeyondDocker runs the compiled program over every number and many
// arguments: what it lets through, Docker's default profile lets through to a
// process without capabilities.
func TestNothingBeyondDocker(t *testing.T) {
	for _, goarch := range architectures {
		t.Run(goarch, func(t *testing.T) {
			o := Options{GuestUID: 65533, GuestGID: 65533}
			m := machineFor(t, o, goarch)
			p, err := policy(o, goarch)
			if err != nil {
				t.Fatal(err)
			}
			rules := map[string]rule{}
			for _, r := range p.rules {
				rules[r.name] = r
			}
			names := map[uint32]string{}
			for n, name := range m.info.SyscallNumbers {
				names[uint32(n)] = name
			}
			for name, n := range recent {
				names[n] = name
			}
			tries, allowed := values(p), 0
			try := func(nr uint32, name string, args [6]uint64) {
				if m.verdict(uint32(m.info.ID), nr, args[:]...) != retAllow {
					return
				}
				allowed++
				if !dockerAllows(goarch, name, args) {
					t.Errorf("%s %x is allowed here and not by Docker's profile", name, args)
				}
			}
			for nr := range newest(m.info) + 40 {
				name := names[nr]
				if r := rules[name]; len(r.anyOf)+len(r.pretend) == 0 {
					try(nr, name, [6]uint64{})
					continue
				}
				for arg := range 3 {
					for _, v := range tries {
						for _, other := range []uint64{0, 1, 0xffffffff} {
							args := [6]uint64{other, other, other, other, other, other}
							args[arg] = v
							try(nr, name, args)
						}
					}
				}
			}
			if allowed < 300 {
				t.Errorf("only %d tries were allowed; do they reach the program?", allowed)
			}
		})
	}
}

// TestTablesAreAlive holds every entry of the tables to change something.
func TestTablesAreAlive(t *testing.T) {
	type place struct{ removed, narrowed bool }
	seen := map[string]place{}
	inProfile := func(name string) bool {
		for _, goarch := range architectures {
			s, err := readDocker(goarch)
			if err != nil {
				t.Fatal(err)
			}
			info, err := arch.GetInfo(goarch)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := number(info, name); ok && (s.free[name] || s.conds[name] != nil) {
				return true
			}
		}
		return false
	}
	for _, r := range removals {
		if r.why == "" || len(r.names) == 0 || r.errno != unix.EPERM && r.errno != unix.ENOSYS {
			t.Errorf("a removal without a reason, calls or an answer: %+v", r)
		}
		for _, name := range r.names {
			if seen[name].removed {
				t.Errorf("%s is removed twice", name)
			}
			seen[name] = place{removed: true}
			if !inProfile(name) {
				t.Errorf("%s is removed, but Docker's profile does not allow it on %q", name, architectures)
			}
		}
	}
	for _, r := range narrowed(Options{GuestUID: 1, GuestGID: 1}) {
		if p := seen[r.name]; p.removed || p.narrowed {
			t.Errorf("%s is narrowed and removed, or narrowed twice", r.name)
		}
		seen[r.name] = place{narrowed: true}
		if !inProfile(r.name) {
			t.Errorf("%s is narrowed, but Docker's profile does not allow it", r.name)
		}
	}
	for _, name := range absent {
		if inProfile(name) {
			t.Errorf("%s is answered as absent, but Docker's profile allows it: it belongs in removals", name)
		}
	}
}

// TestProfileIsKnown fails when a new version of Docker's module brings calls
// whose numbers this package lacks: they would be refused without anybody having
// decided so.
func TestProfileIsKnown(t *testing.T) {
	// Of architectures that no table is for; the one of ppc64le and arm has
	// another name in the table of arm.
	elsewhere := strings.Fields("riscv_hwprobe riscv_flush_icache s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr swapcontext sync_file_range2")
	known := func(name string) bool {
		for _, a := range []string{"amd64", "arm64", "386", "arm"} {
			if info, err := arch.GetInfo(a); err != nil {
				t.Fatal(err)
			} else if _, ok := number(info, name); ok {
				return true
			}
		}
		return false
	}
	for _, g := range docker.DefaultProfile().Syscalls {
		for _, name := range g.Names {
			if k := known(name); !k && !slices.Contains(elsewhere, name) {
				t.Errorf("Docker's profile names %s, of which no number is known: add it to recent, and allow or remove it", name)
			} else if k && slices.Contains(elsewhere, name) {
				t.Errorf("%s is known after all", name)
			}
		}
	}
}

// TestUnknownForm fails closed for a profile whose form changed.
func TestUnknownForm(t *testing.T) {
	s := &start{free: map[string]bool{}, conds: map[string][][]cond{
		"less":  {{{0, "SCMP_CMP_LT", 38, 0}}},
		"wide":  {{{0, "SCMP_CMP_EQ", 1 << 32, 0}}},
		"clone": {{{0, "SCMP_CMP_MASKED_EQ", 0x7e020000, 0}}},
		"not":   {{{0, "SCMP_CMP_NE", 7, 0}}},
	}}
	for name, ok := range map[string]bool{"less": false, "wide": false, "clone": true, "not": true} {
		if r, err := s.rule(name); (err == nil) != ok || ok && len(r.anyOf) != 1 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}
