package lattice

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/architecture.svg")

const pictureFile = "../../docs/architecture.svg"

// district is a group of folders of internal/, from the top of the picture down.
type district struct {
	name, does, not string
	folders         []string
}

var districts = []district{
	{"program", "commands of the binary; wires the daemon", "nothing; no package imports it", []string{"cli", "daemon"}},
	{"servers", "decode, authorize, call, encode: HTTP API, E2B's wire, data plane", "which store or backend there is, what a task does", []string{"server"}},
	{"work", "tasks and their gate; pipeline, agent loop, models", "servers, backends, the sandbox manager (declares interfaces)", []string{"task", "agent"}},
	{"sandboxes", "the contract of isolation, its manager, backends, the guest", "what a sandbox is used for", []string{"sandbox", "backend", "guest"}},
	{"egress", "what leaves a sandbox: policy, names, connections, TLS, secrets", "backends, the manager, stores, servers", []string{"egress", "secret"}},
	{"files", "repositories and forges; layers, workspaces, snapshots", "sandboxes, tasks, servers", []string{"repository", "storage"}},
	{"state", "rows and the append-only event log", "everything but api", []string{"store"}},
	{"platform", "configuration, tools of the host, metrics", "tasks, servers", []string{"platform", "telemetry"}},
}

// districtOf finds the district of a package of internal/; -1 for any other.
func districtOf(pkg string) int {
	rest, ok := strings.CutPrefix(pkg, "internal/")
	if !ok {
		return -1
	}
	folder, _, _ := strings.Cut(rest, "/")
	return slices.IndexFunc(districts, func(d district) bool { return slices.Contains(d.folders, folder) })
}

// TestPicture holds docs/architecture.svg to the packages that there are and to what they
// import of each other. go test ./test/lattice -run TestPicture -update writes it.
func TestPicture(t *testing.T) {
	want := picture(t, packages(t, "../.."))
	if *update {
		if err := os.WriteFile(pictureFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(pictureFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what the code is: go test ./test/lattice -run TestPicture -update", pictureFile)
	}
}

// Sizes of the picture, in pixels.
const (
	boxLeft, boxWidth, boxHeight, boxStep = 70, 700, 84, 100
	boxTop                                = 64
)

func picture(t *testing.T, pkgs map[string][]string) []byte {
	count, imports := make([]int, len(districts)), make([]map[string]int, len(districts))
	for pkg, list := range pkgs {
		from := districtOf(pkg)
		if from < 0 {
			if strings.HasPrefix(pkg, "internal/") {
				t.Errorf("%s is in no district of the picture", pkg)
			}
			continue
		}
		count[from]++
		for _, imp := range list {
			own, ok := strings.CutPrefix(imp, "hortus.dev/")
			if to := districtOf(own); ok && to >= 0 && to != from {
				if imports[from] == nil {
					imports[from] = map[string]int{}
				}
				imports[from][districts[to].name]++
			}
		}
	}
	var b bytes.Buffer
	height := boxTop + boxStep*len(districts) + 40
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 %d" font-family="sans-serif" font-size="13">
<title>The districts of internal/, what each may not know, and the two flows</title>
<defs>
<marker id="command" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#1f6feb"/></marker>
<marker id="fact" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#1a7f37"/></marker>
</defs>
<rect width="840" height="%d" fill="#ffffff"/>
<text x="%d" y="24" font-size="16" font-weight="bold">The districts of internal/</text>
<text x="%d" y="46" fill="#1f6feb">commands: server, task, agent, sandbox, backend, guest</text>
<text x="%d" y="46" fill="#1a7f37" text-anchor="end">facts: into the event log, and out of it to readers</text>
`, height, height, boxLeft, boxLeft, boxLeft+boxWidth)
	for i, d := range districts {
		y := boxTop + i*boxStep
		var uses []string
		for _, name := range slices.Sorted(maps.Keys(imports[i])) {
			uses = append(uses, fmt.Sprintf("%s %d", name, imports[i][name]))
		}
		if uses == nil {
			uses = []string{"no other district"}
		}
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="#f6f8fa" stroke="#57606a"/>
<text x="%d" y="%d"><tspan font-weight="bold" font-size="15">%s</tspan>  %s, %d packages</text>
<text x="%d" y="%d">%s</text>
<text x="%d" y="%d" fill="#9a3412">may not know: %s</text>
<text x="%d" y="%d" fill="#57606a">imports: %s</text>
`, boxLeft, y, boxWidth, boxHeight,
			boxLeft+14, y+20, d.name, strings.Join(d.folders, "/, ")+"/", count[i],
			boxLeft+14, y+39, html.EscapeString(d.does), boxLeft+14, y+57, html.EscapeString(d.not), boxLeft+14, y+75, strings.Join(uses, ", "))
	}
	// Commands go down the left side, from the servers to the guest.
	arrow := func(x int, from, to float64, kind, colour string) {
		fmt.Fprintf(&b, "<path d=\"M%d,%.0f L%d,%.0f\" stroke=\"%s\" stroke-width=\"3\" marker-end=\"url(#%s)\"/>\n",
			x, boxTop+from*boxStep, x, boxTop+to*boxStep, colour, kind)
	}
	for i := range 3 {
		arrow(40, float64(i)+0.3, float64(i)+1.3, "command", "#1f6feb")
	}
	// Facts go down the right side into the event log, and up to the servers.
	arrow(796, 2.3, 6.3, "fact", "#1a7f37")
	arrow(796, 3.3, 6.3, "fact", "#1a7f37")
	arrow(818, 6.5, 1.3, "fact", "#1a7f37")
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" fill=\"#57606a\">The number after a district counts the imports of its packages. api/ is below everything. Written from the code by a test.</text>\n</svg>\n",
		boxLeft, boxTop+boxStep*len(districts)+18)
	return b.Bytes()
}
