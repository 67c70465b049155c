package filters

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
)

// magic begins every table. Its last byte is the version of the format.
const magic = "hortus-bpf\x01"

// Table is the content of a file of programs.
type Table struct {
	// Version is the version of the gVisor module whose rules were compiled.
	Version string
	// Sentry and Gofer are the programs of the two processes. Their names are gVisor's
	// for the options that they are compiled for.
	Sentry, Gofer []precompiledseccomp.Program
}

// Encode encodes the table. The same table always produces the same bytes.
func (t Table) Encode() []byte {
	b := appendString([]byte(magic), t.Version)
	for _, programs := range [][]precompiledseccomp.Program{t.Sentry, t.Gofer} {
		b = binary.AppendUvarint(b, uint64(len(programs)))
		for _, p := range programs {
			b = appendString(b, p.Name)
			b = binary.AppendUvarint(b, uint64(len(p.Bytecode32)))
			for _, word := range p.Bytecode32 {
				b = binary.LittleEndian.AppendUint32(b, word)
			}
			b = binary.AppendUvarint(b, uint64(len(p.VarOffsets)))
			for _, name := range slices.Sorted(maps.Keys(p.VarOffsets)) {
				b = appendString(b, name)
				b = binary.AppendUvarint(b, uint64(len(p.VarOffsets[name])))
				for _, offset := range p.VarOffsets[name] {
					b = binary.AppendUvarint(b, uint64(offset))
				}
			}
		}
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errForm = errors.New("the table of seccomp programs is corrupted")

// Decode decodes the output of Encode. It returns an error for any other input.
func Decode(b []byte) (Table, error) {
	if len(b) < len(magic) || string(b[:len(magic)]) != magic {
		return Table{}, errForm
	}
	d := decoder{rest: b[len(magic):]}
	t := Table{Version: d.text()}
	t.Sentry, t.Gofer = d.programs(), d.programs()
	if d.bad || len(d.rest) != 0 {
		return Table{}, errForm
	}
	return t, nil
}

// decoder decodes the parts in order. After the first invalid part all others are empty.
type decoder struct {
	rest []byte
	bad  bool
}

// count reads the number of elements that follow. Each has at least one byte, so a number
// greater than the remaining bytes is invalid.
func (d *decoder) count() int {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || n > uint64(len(d.rest)-size) {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return int(n)
}

func (d *decoder) text() string {
	n := d.count()
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) programs() []precompiledseccomp.Program {
	n := d.count()
	var out []precompiledseccomp.Program
	for range n {
		p := precompiledseccomp.Program{Name: d.text(), VarOffsets: map[string][]int{}}
		words := d.count()
		if words > len(d.rest)/4 || words%2 != 0 { // an instruction is two words
			d.bad, d.rest = true, nil
			return nil
		}
		p.Bytecode32 = make([]uint32, words)
		for i := range p.Bytecode32 {
			p.Bytecode32[i] = binary.LittleEndian.Uint32(d.rest[4*i:])
		}
		d.rest = d.rest[4*words:]
		for range d.count() {
			name := d.text()
			var offsets []int
			for range d.count() {
				offset, size := binary.Uvarint(d.rest)
				if size <= 0 || offset >= uint64(words) {
					d.bad, d.rest = true, nil
					return nil
				}
				d.rest = d.rest[size:]
				offsets = append(offsets, int(offset))
			}
			p.VarOffsets[name] = offsets
		}
		if d.bad {
			return nil
		}
		out = append(out, p)
	}
	return out
}
