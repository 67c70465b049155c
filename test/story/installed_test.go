package story

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// installJS makes packages of ten files of 10 KiB each. "number" is in the first.
const installJS = `const fs = require('fs');
for (let i = 0; i < +process.argv[2]; i++) {
  const dir = 'node_modules/p' + i;
  fs.mkdirSync(dir + '/lib', { recursive: true });
  fs.writeFileSync(dir + '/index.js', 'exports.number = ' + i + ';\n');
  for (let f = 1; f < 10; f++) fs.writeFileSync(dir + '/lib/f' + f + '.js', '// ' + 'x'.repeat(10240) + '\n');
}
`

// installedGate fails if a trial has no links, or can write through them, or has written; and if it
// cannot write beside them, which is the control. In the workspace it fails if p0 is not as installed.
const installedGate = `set -e
if [ "$PWD" != "$(cat .place 2>/dev/null)" ] && [ -e .place ]; then
	[ -L node_modules/p0 ] || { echo "no links"; exit 8; }
	if echo evil 2>/dev/null > node_modules/p0/index.js; then echo "written"; exit 9; fi
	if rm -f node_modules/p0/lib/f1.js 2>/dev/null; then echo "removed"; exit 9; fi
	mkdir -p node_modules/.cache node_modules/p-new
	echo mine > node_modules/.cache/x; echo 'exports.number = 1' > node_modules/p-new/index.js
	[ "$(cat node_modules/p-new/index.js)" = 'exports.number = 1' ]
else
	pwd > .place
	[ ! -e node_modules/.cache ] && [ ! -e node_modules/p-new ]
fi
[ "$(cat node_modules/p0/index.js)" = 'exports.number = 0;' ]
node test.js
`

// TestRepairWithInstalledFiles: a repository with many installed files is repaired offline, and what
// was installed is not copied for it. Copying 110,000 files twice takes a minute on gvisor.
func TestRepairWithInstalledFiles(t *testing.T) {
	tier.Soak(t) // 110,000 files; internal/agent/model/offline/repair TestTrialsWithInstalledFiles has some
	tier.AnyUser(t)
	t.Parallel()
	for _, isolation := range []string{"container", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			g := newGarden(t)
			g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_ISOLATION="+isolation)
			g.can(isolation, api.CapStart)
			g.opens(isolation, "node")
			dir := makeRepo(t, g, map[string]string{
				".gitignore": "node_modules\n.place\n", "install.js": installJS, "gate.sh": installedGate,
				".hortus/setup.yaml": fmt.Sprintf("egress: []\nsteps:\n  - name: install\n    run: node install.js %d\n", tier.Count(500, 11000)),
				"last.js":            "const { number } = require('p0');\nexports.last = (list) => list[list.length - number];\n",
				"test.js":            "const { last } = require('./last');\nif (last([1, 2, 3]) !== 3) { console.error('not ok 1 - last'); process.exit(1); }\nconsole.log('1 passed');\n",
			})
			run := g.patient("task", "--repo", dir, "--author", "Ada <ada@example.org>", "--rounds", "0", "--verify", "sh gate.sh", "Fix the failing test")
			if run.code != 0 || !strings.Contains(run.stderr, "[setup] install") || !strings.Contains(run.stderr, "M last.js +1 -1") {
				t.Fatalf("no repair: %s", run)
			}
		})
	}
}
