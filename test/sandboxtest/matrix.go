package sandboxtest

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// updateMatrix writes the column of a backend into the document instead of comparing it.
var updateMatrix = flag.Bool("update-matrix", false, "write what the backends can into docs/isolation.md")

// The document has two tables between these lines: what each backend can, and which cases of this suite it runs.
const (
	matrixBegins = "<!-- matrix: begins -->\n"
	matrixEnds   = "<!-- matrix: ends -->\n"
)

// byHost are the capabilities that also depend on the kernel and on how the machine is set up. A host that lacks one of them is not
// an error of the document.
var byHost = []api.Capability{
	api.CapPause, api.CapRootIdentity, api.CapLimitCPU, api.CapLimitCPUTime, api.CapLimitMemory, api.CapLimitProcs, api.CapWorkspace, api.CapEgress,
}

// Documented compares the document with what a backend reports, and with the cases that a run leaves out for it. It looks at what root
// gets: an ordinary user may have less.
func Documented(t *testing.T, b sandbox.Backend, r api.BackendReport) {
	if os.Geteuid() != 0 {
		t.Skip("the document says what the backends can for root")
	}
	path := document(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), matrixBegins)
	body, after, ends := strings.Cut(rest, matrixEnds)
	if !ok || !ends {
		t.Fatalf("%s has no matrix", path)
	}
	m := readMatrix(body)
	if *updateMatrix {
		m.set(column(b, r))
		if err := os.WriteFile(path, []byte(before+matrixBegins+m.String()+matrixEnds+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	name, cells := column(b, r)
	less := false
	for _, c := range cells {
		if c.table == "Capability" && c.value == "no" && m.get(name, c) != "no" && slices.Contains(byHost, api.Capability(c.row)) {
			t.Logf("this host lacks %s of %s", c.row, name)
			less = true
		}
	}
	for _, c := range cells {
		if have := m.get(name, c); have != c.value && !less {
			t.Errorf("docs/isolation.md says of %s and %s %q, and the run %q: go test %s -run '%s' -args -update-matrix", name, c.row, have, c.value, ".", t.Name())
		}
	}
}

// document finds the document from the directory of any package.
func document(t *testing.T) string {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, serr := os.Stat(filepath.Join(dir, "go.mod")); serr == nil {
			return filepath.Join(dir, "docs", "isolation.md")
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("the directory of the module was not found: %v", err)
	return ""
}

// Lacks returns the first capability that a case needs and a backend has not.
func (c Case) Lacks(r api.BackendReport) (api.Ability, bool) {
	needs := c.Needs
	if !c.Plain {
		needs = append(slices.Clip(needs), api.CapPrograms)
	}
	for _, need := range needs {
		if a, ok := r.Has(need); !ok {
			a.Capability = need
			return a, true
		}
	}
	return api.Ability{}, false
}

// cell is a value of a backend in a row of a table.
type cell struct{ table, row, value string }

// column says what a backend can, and for each kind of cases which of them are left out.
func column(b sandbox.Backend, r api.BackendReport) (name string, out []cell) {
	for _, c := range api.Capabilities() {
		a, ok := r.Has(c)
		value := "no"
		if ok {
			value = "yes"
			if strings.HasPrefix(a.Reason, "best effort") {
				value = "best effort"
			}
		}
		out = append(out, cell{"Capability", string(c), value})
	}
	can := b.Capabilities()
	saves := "no"
	if can.Save {
		saves = "yes"
	}
	out = append(out, cell{"Capability", "files of a sandbox can be saved", saves})
	ran, left := map[string]int{}, map[string][]string{}
	var kinds []string
	for _, c := range Cases() {
		kind, _, _ := strings.Cut(c.Name, "/")
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		if a, lacks := c.Lacks(r); !lacks {
			ran[kind]++
		} else if !slices.Contains(left[kind], string(a.Capability)) {
			left[kind] = append(left[kind], string(a.Capability))
		}
	}
	for _, kind := range kinds {
		value := "all"
		if without := strings.Join(left[kind], ", "); without != "" && ran[kind] > 0 {
			value = "without " + without
		} else if without != "" {
			value = "none: " + without
		}
		if parts, ok := optional[kind]; ok && ran[kind] > 0 && !parts.has(can, r) {
			value = "none: " + parts.what
		}
		out = append(out, cell{"Cases", kind, value})
	}
	return r.Backend, out
}

// optional are the kinds of cases of the parts of the contract that a backend can leave out. It skips them then.
var optional = map[string]struct {
	what string
	has  func(sandbox.Capabilities, api.BackendReport) bool
}{
	"ahead":  {"boots no guest ahead", func(c sandbox.Capabilities, _ api.BackendReport) bool { return c.Prepare }},
	"save":   {"saves nothing", func(c sandbox.Capabilities, _ api.BackendReport) bool { return c.Save }},
	"expect": {"begins no sandbox before its state is saved", func(c sandbox.Capabilities, _ api.BackendReport) bool { return c.Expect }},
	"fork": {"forks no memory", func(_ sandbox.Capabilities, r api.BackendReport) bool {
		_, ok := r.Has(api.CapCheckpoint)
		return ok
	}},
}

// matrix is the two tables of the document.
type matrix struct {
	backends []string
	rows     []cell              // table and row, in their order
	values   map[string][]string // by table and row, one for each backend
}

func readMatrix(text string) *matrix {
	m := &matrix{values: map[string][]string{}}
	table := ""
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		switch {
		case fields[0] == "" || strings.HasPrefix(fields[0], "---"):
		case fields[0] == "Capability" || fields[0] == "Cases":
			table, m.backends = fields[0], fields[1:]
		default:
			m.rows = append(m.rows, cell{table: table, row: fields[0]})
			m.values[table+"/"+fields[0]] = fields[1:]
		}
	}
	return m
}

func (m *matrix) get(backend string, c cell) string {
	i, all := slices.Index(m.backends, backend), m.values[c.table+"/"+c.row]
	if i < 0 || i >= len(all) {
		return ""
	}
	return all[i]
}

// set replaces the column of a backend, or adds it. The rows are then those of the column.
func (m *matrix) set(backend string, cells []cell) {
	i := slices.Index(m.backends, backend)
	if i < 0 {
		i, m.backends = len(m.backends), append(m.backends, backend)
	}
	m.rows = nil
	for _, c := range cells {
		m.rows = append(m.rows, cell{table: c.table, row: c.row})
		all := m.values[c.table+"/"+c.row]
		for len(all) < len(m.backends) {
			all = append(all, "")
		}
		all[i] = c.value
		m.values[c.table+"/"+c.row] = all
	}
}

func (m *matrix) String() string {
	var b strings.Builder
	table := ""
	for _, r := range m.rows {
		if r.table != table {
			if table != "" {
				b.WriteString("\n")
			}
			table = r.table
			b.WriteString("| " + table + " | " + strings.Join(m.backends, " | ") + " |\n|---" + strings.Repeat("|---", len(m.backends)) + "|\n")
		}
		b.WriteString("| " + r.row + " | " + strings.Join(m.values[r.table+"/"+r.row], " | ") + " |\n")
	}
	return b.String()
}
