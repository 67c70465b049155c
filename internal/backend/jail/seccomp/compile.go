package seccomp

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// What a filter answers; the lower half of an errno verdict is the number.
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

// x32 numbers carry this bit under the architecture of amd64.
const x32Bit = 0x40000000

// test compares 32 bits of one argument: the lower ones, as the kernel reads
// most, or the upper ones of a pointer.
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

// rule allows one call when every test of one of its alternatives holds; with no
// alternatives, always. otherwise is the errno of a call that no alternative
// allows. pretend holds alternatives that are looked at before: the caller is told
// that what it asks for is done, and nothing is. refused holds alternatives that are
// looked at after anyOf, each with an errno of its own.
type rule struct {
	name      string
	pretend   [][]test
	anyOf     [][]test
	refused   []refusal
	otherwise unix.Errno
}

// refusal answers a call with an errno when every test holds.
type refusal struct {
	tests []test
	errno unix.Errno
}

// Policy is a compiled policy's source.
type Policy struct {
	rules []rule
	nosys []string // answered with ENOSYS though known
}

// Compile makes the program for the architecture that this binary is for: 8
// bytes an instruction, in host byte order, as the kernel takes it. Names that
// the architecture lacks are left out.
func (p *Policy) Compile() ([]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	prog, err := p.program(info)
	if err != nil {
		return nil, err
	}
	return encode(prog)
}

// Allowed names the calls that the policy allows on this architecture, with any
// arguments or with some, in order.
func (p *Policy) Allowed() ([]string, error) {
	info, err := arch.GetInfo("")
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

// segment is a run of numbers, from first up to the next segment's, that the same
// instructions answer. They always return.
type segment struct {
	first  uint32
	answer []bpf.Instruction
}

func constant(v uint32) []bpf.Instruction { return []bpf.Instruction{bpf.RetConstant{Val: v}} }

// segments cuts all numbers into runs of one answer, in ascending order.
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
		// The jumps in a body reach 255 instructions.
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
	// What is newer than this package must look as if the kernel were older.
	return append(out, segment{top + 1, nosys}), nil
}

// tree finds a number's segment by halves. The kernel runs a filter once for
// every number when it is installed, and once for a call whose answer depends on
// its arguments; a list would cost both a hundred comparisons instead of seven.
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

// compileRule makes the body that is reached when the number matched; it always
// returns.
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

// alternative answers when every test holds, and is passed over otherwise.
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

// argOffset is where the lower half of an argument lies.
func argOffset(arg int) uint32 {
	off := uint32(offArgs + 8*arg)
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		off += 4
	}
	return off
}

// recent are calls that the table of numbers may be too old for. They have one
// number on every architecture.
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

// newest is the highest number that this package knows of.
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
		return nil, fmt.Errorf("seccomp: %d instructions, more than %d", len(prog), most)
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
