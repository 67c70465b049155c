package seccomp

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Results of a filter; the lower half of an errno result is the number.
const (
	retAllow = 0x7fff0000
	retErrno = 0x00050000
	retKill  = 0x80000000
)

// Offsets in struct seccomp_data.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// x32 numbers have this bit on amd64.
const x32Bit = 0x40000000

// test compares 32 bits of one argument: the lower half, which the kernel reads of most, or the
// upper half of a pointer.
type test struct {
	arg   int
	mask  uint32 // applied first
	op    op
	val   uint32
	upper bool
}

type op int

const (
	equal op = iota
	notEqual
)

// rule allows one call if every test of one of the alternatives in anyOf holds; without
// alternatives, always. otherwise is the errno of a call that no alternative allows. pretend are
// alternatives that are checked before: the call returns success and does nothing. refused are
// alternatives that are checked after anyOf, each with its own errno.
type rule struct {
	name      string
	pretend   [][]test
	anyOf     [][]test
	refused   []refusal
	otherwise unix.Errno
}

// refusal is the errno of a call if every test holds.
type refusal struct {
	tests []test
	errno unix.Errno
}

// Policy is a system call policy.
type Policy struct {
	goarch string
	rules  []rule
	nosys  []string // answered with ENOSYS though known
}

// Compile compiles the program for the policy's architecture, in the kernel's format: 8 bytes
// for each instruction, in the byte order of this host. Calls that the architecture lacks are skipped.
func (p *Policy) Compile() ([]byte, error) {
	info, err := arch.GetInfo(p.goarch)
	if err != nil {
		return nil, err
	}
	prog, err := p.program(info)
	if err != nil {
		return nil, err
	}
	return encode(prog)
}

// Allowed lists the calls that the policy allows on its architecture, with any or some arguments,
// in order.
func (p *Policy) Allowed() ([]string, error) {
	info, err := arch.GetInfo(p.goarch)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range p.rules {
		if _, ok := number(info, r.name); ok {
			out = append(out, r.name)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (p *Policy) program(info *arch.Info) ([]bpf.Instruction, error) {
	if info.SeccompMask != 0 {
		return nil, fmt.Errorf("seccomp: no policy for %s", info.Name)
	}
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: x32Bit, SkipFalse: 1},
		bpf.RetConstant{Val: retErrno | uint32(unix.ENOSYS)},
	}
	segments, err := p.segments(info)
	if err != nil {
		return nil, err
	}
	return append(prog, tree(segments)...), nil
}

// segment is a range of numbers, from first up to the next segment's, with the same instructions,
// which always return.
type segment struct {
	first  uint32
	answer []bpf.Instruction
}

func constant(v uint32) []bpf.Instruction { return []bpf.Instruction{bpf.RetConstant{Val: v}} }

// segments divides all numbers into ranges, in ascending order.
func (p *Policy) segments(info *arch.Info) ([]segment, error) {
	var (
		allow   = constant(retAllow)
		refuse  = constant(retErrno | uint32(unix.EPERM))
		nosys   = constant(retErrno | uint32(unix.ENOSYS))
		top     = newest(info)
		answers = make([][]bpf.Instruction, top+1)
	)
	for i := range answers {
		answers[i] = refuse
	}
	for _, name := range p.nosys {
		if nr, ok := number(info, name); ok {
			answers[nr] = nosys
		}
	}
	for _, r := range p.rules {
		nr, ok := number(info, r.name)
		if !ok {
			continue
		}
		if len(r.anyOf)+len(r.pretend)+len(r.refused) == 0 {
			answers[nr] = allow
			continue
		}
		body := compileRule(r)
		// A jump in a body reaches at most 255 instructions.
		if len(body) > 255 {
			return nil, fmt.Errorf("seccomp: the rule for %s is too long", r.name)
		}
		answers[nr] = body
	}
	out := []segment{{0, answers[0]}}
	for nr, a := range answers {
		if last := out[len(out)-1].answer; &a[0] != &last[0] {
			out = append(out, segment{uint32(nr), a})
		}
	}
	// A call that is newer than this package must look missing.
	return append(out, segment{top + 1, nosys}), nil
}

// tree finds the segment of a number by binary search. The kernel runs a filter once for every
// number when it is installed, and for each call whose result depends on its arguments; a list
// would need a hundred comparisons instead of seven.
func tree(segments []segment) []bpf.Instruction {
	if len(segments) == 1 {
		return segments[0].answer
	}
	mid := len(segments) / 2
	left, right := tree(segments[:mid]), tree(segments[mid:])
	var out []bpf.Instruction
	if len(left) <= 255 {
		out = append(out, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: segments[mid].first, SkipTrue: uint8(len(left))})
	} else {
		out = append(out,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: segments[mid].first, SkipFalse: 1},
			bpf.Jump{Skip: uint32(len(left))})
	}
	return append(append(out, left...), right...)
}

// compileRule compiles the body for a matching number; it always returns.
func compileRule(r rule) []bpf.Instruction {
	var out []bpf.Instruction
	for _, tests := range r.pretend {
		out = append(out, alternative(tests, retErrno)...)
	}
	for _, tests := range r.anyOf {
		out = append(out, alternative(tests, retAllow)...)
	}
	for _, f := range r.refused {
		out = append(out, alternative(f.tests, retErrno|uint32(f.errno))...)
	}
	if len(r.anyOf) == 0 {
		return append(out, bpf.RetConstant{Val: retAllow})
	}
	return append(out, bpf.RetConstant{Val: retErrno | uint32(r.otherwise)})
}

// alternative returns a result if every test holds, and continues otherwise.
func alternative(tests []test, answer uint32) []bpf.Instruction {
	var out []bpf.Instruction
	for _, t := range tests {
		off := argOffset(t.arg)
		if t.upper {
			off ^= 4
		}
		out = append(out, bpf.LoadAbsolute{Off: off, Size: 4})
		if t.mask != ^uint32(0) {
			out = append(out, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: t.mask})
		}
		cond := bpf.JumpNotEqual
		if t.op == notEqual {
			cond = bpf.JumpEqual
		}
		out = append(out, bpf.JumpIf{Cond: cond, Val: t.val})
	}
	out = append(out, bpf.RetConstant{Val: answer})
	for i, ins := range out {
		if j, ok := ins.(bpf.JumpIf); ok {
			j.SkipTrue = uint8(len(out) - i - 1)
			out[i] = j
		}
	}
	return out
}

// argOffset is the offset of the lower half of an argument.
func argOffset(arg int) uint32 {
	off := uint32(offArgs + 8*arg)
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		off += 4
	}
	return off
}

// recent are calls that may be missing in the table of numbers. They have the same number on every
// architecture.
var recent = map[string]uint32{
	"pidfd_getfd": 438, "faccessat2": 439, "process_madvise": 440, "epoll_pwait2": 441, "mount_setattr": 442,
	"landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446,
	"memfd_secret": 447, "process_mrelease": 448, "futex_waitv": 449, "set_mempolicy_home_node": 450,
	"cachestat": 451, "fchmodat2": 452, "map_shadow_stack": 453, "futex_wake": 454, "futex_wait": 455,
	"futex_requeue": 456, "statmount": 457, "listmount": 458, "mseal": 462, "setxattrat": 463,
	"getxattrat": 464, "listxattrat": 465, "removexattrat": 466,
}

func number(info *arch.Info, name string) (uint32, bool) {
	if nr, ok := info.SyscallNames[name]; ok {
		return uint32(nr), true
	}
	nr, ok := recent[name]
	return nr, ok
}

// newest is the highest number that this package knows.
func newest(info *arch.Info) uint32 {
	var top uint32
	for nr := range info.SyscallNumbers {
		top = max(top, uint32(nr))
	}
	for _, nr := range recent {
		top = max(top, nr)
	}
	return top
}

func encode(prog []bpf.Instruction) ([]byte, error) {
	const most = 4096 // BPF_MAXINSNS
	if len(prog) > most {
		return nil, fmt.Errorf("seccomp: the program has %d instructions, the maximum is %d", len(prog), most)
	}
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return nil, fmt.Errorf("seccomp: %w", err)
	}
	out := make([]byte, 0, 8*len(raw))
	for _, r := range raw {
		out = binary.NativeEndian.AppendUint16(out, r.Op)
		out = append(out, r.Jt, r.Jf)
		out = binary.NativeEndian.AppendUint32(out, r.K)
	}
	return out, nil
}
