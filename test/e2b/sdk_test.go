package e2b

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/test/tier"
)

var (
	update = flag.Bool("update", false, "write the table in docs/e2b.md anew; needs every column")
	only   = flag.String("features", "", "run these alone (`pause,fork`), and leave the table be")
)

// Variable names a directory in which the SDKs of package-lock.json are installed.
const Variable = "HORTUS_E2B"

// sdks are the versions that are tried, by the names that package.json gives them.
var sdks = []struct{ version, pkg string }{{"2.51.0", "e2b-2.51"}, {"2.50.0", "e2b-2.50"}}

var isolations = []string{"container", "gvisor"}

// line is what run.mjs says of a feature.
type line struct {
	File    string `json:"file"`
	Feature string `json:"feature"`
	Result  string `json:"result"` // yes, refused or failed
	Detail  string `json:"detail"`
	MS      int64  `json:"ms"`
}

func (l line) cell() string {
	if l.Result == "refused" {
		return "refused: `" + l.Detail + "`"
	}
	return l.Result
}

// TestSDKs runs every feature with every SDK on every isolation, and holds
// docs/e2b.md to what came of it. T1 has each SDK on one isolation, another for each.
func TestSDKs(t *testing.T) {
	t.Parallel()
	modules := installed(t)
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	var mu sync.Mutex
	got := map[string]map[string]string{} // by column, then by feature
	// Side by side: most of the time they wait for deadlines and samples.
	t.Run("on", func(t *testing.T) {
		for n, isolation := range isolations {
			t.Run(isolation, func(t *testing.T) {
				t.Parallel()
				s := serve(t, isolation)
				sdks := sdks
				if !tier.Soaking() && !*update {
					sdks = sdks[n : n+1]
				}
				lines := make([][]line, len(sdks))
				var runs sync.WaitGroup
				for i, sdk := range sdks {
					runs.Go(func() { lines[i] = features(t, node, modules, sdk.pkg, isolation, s, *only) })
				}
				runs.Wait()
				for i, sdk := range sdks {
					column := map[string]string{}
					for _, l := range lines[i] {
						column[l.Feature] = l.cell()
						if l.Result == "failed" {
							t.Errorf("%s, %s: %s\n%s", sdk.version, l.File, l.Feature, l.Detail)
						} else {
							t.Logf("%s %-45s %-30s %5d ms", sdk.version, l.Feature, l.cell(), l.MS)
						}
					}
					mu.Lock()
					got[sdk.version+", "+isolation] = column
					mu.Unlock()
				}
			})
		}
	})
	if !t.Failed() && *only == "" {
		checkTable(t, got)
	}
}

// TestAuto: where nobody chose an isolation, sandboxes of clients keep their memory.
func TestAuto(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	modules := installed(t)
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	serve(t, "gvisor") // skips the test where this machine cannot
	s := serve(t, "auto")
	for _, l := range features(t, node, modules, sdks[0].pkg, "gvisor", s, "pause") {
		if l.Result != "yes" {
			t.Errorf("%s: %s: %s", l.Feature, l.Result, l.Detail)
		}
	}
}

// installed finds the SDKs, or skips the test with the reason.
func installed(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(Variable)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skipf("no cache to look for the SDKs in: %v", err)
		}
		dir = filepath.Join(cache, "hortus-e2b")
	}
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	there, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "node_modules", sdks[0].pkg))
	}
	if err == nil && !bytes.Equal(lock, there) {
		err = fmt.Errorf("%s is of other versions", dir)
	}
	if err != nil {
		if os.Getenv(Variable) != "" {
			t.Fatalf("the SDKs are not in %s=%s: %v", Variable, dir, err)
		}
		t.Skipf("the SDKs are not installed: %v; mkdir -p %s && cp test/e2b/package*.json %s && npm ci --ignore-scripts --prefix %s", err, dir, dir, dir)
	}
	return dir
}

// features runs the features with one SDK.
func features(t *testing.T, node, modules, pkg, isolation string, s server, only string) []line {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest())
	defer cancel()
	names := strings.FieldsFunc(only, func(r rune) bool { return r == ',' })
	cmd := exec.CommandContext(ctx, node, append([]string{"run.mjs", pkg}, names...)...)
	// An SDK finds Hortus by these alone; the last is for the files of volumes.
	cmd.Env = append(os.Environ(), Variable+"="+modules, "HORTUS_E2B_ISOLATION="+isolation,
		"E2B_API_KEY="+s.key, "E2B_API_URL="+s.url, "E2B_SANDBOX_URL="+s.url, "E2B_VOLUME_API_URL="+s.url)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v\n%s", pkg, err, stderr.Bytes())
	}
	var all []line
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		var l line
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Errorf("%s said %q", pkg, sc.Bytes())
			continue
		}
		all = append(all, l)
	}
	files, err := filepath.Glob("features/*.mjs")
	want := len(files)
	if len(names) > 0 {
		want = len(names)
	}
	if err != nil || len(all) != want {
		t.Errorf("%s ran %d of %d features, %v\n%s", pkg, len(all), want, err, stderr.Bytes())
	}
	return all
}

const (
	docs  = "../../docs/e2b.md"
	begin = "<!-- begin: go test ./test/e2b -update -->\n"
	end   = "<!-- end -->\n"
)

// checkTable compares the table in the docs with what came of the run, column by
// column, as far as columns could be tried here.
func checkTable(t *testing.T, got map[string]map[string]string) {
	t.Helper()
	var columns []string
	for _, sdk := range sdks {
		for _, i := range isolations {
			columns = append(columns, sdk.version+", "+i)
		}
	}
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between %q and %q", docs, begin, end)
	}
	if *update {
		if len(got) != len(columns) {
			t.Fatalf("only %d of %d columns could be tried here", len(got), len(columns))
		}
		if err := os.WriteFile(docs, []byte(before+begin+written(columns, got)+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	said := parsed(table)
	for _, c := range columns {
		if got[c] == nil {
			t.Logf("not tried here: %s", c)
			continue
		}
		for feature, cell := range got[c] {
			if said[c][feature] != cell {
				t.Errorf("%s: %q with %s is %q, and the docs say %q; go test ./test/e2b -update writes them", docs, feature, c, cell, said[c][feature])
			}
		}
		for feature := range said[c] {
			if _, ok := got[c][feature]; !ok {
				t.Errorf("%s tells of %q, which nothing tries", docs, feature)
			}
		}
	}
}

// written is the table of what came of a run.
func written(columns []string, got map[string]map[string]string) string {
	var features []string
	for f := range got[columns[0]] {
		features = append(features, f)
	}
	slices.Sort(features)
	var b strings.Builder
	fmt.Fprintf(&b, "| feature | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, f := range features {
		fmt.Fprintf(&b, "| %s |", f)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", got[c][f])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// parsed reads a table back: cells by column, then by feature.
func parsed(table string) map[string]map[string]string {
	out := map[string]map[string]string{}
	var head []string
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case strings.HasPrefix(row, "|---"):
		case head == nil:
			head = cells
		default:
			for i := 1; i < len(cells) && i < len(head); i++ {
				if out[head[i]] == nil {
					out[head[i]] = map[string]string{}
				}
				out[head[i]][cells[0]] = cells[i]
			}
		}
	}
	return out
}
