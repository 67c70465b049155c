package console

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

var update = flag.Bool("update", false, "write the pictures of the console to "+pictures)

const pictures = "../../docs/pictures"

// pictureScene is what the script that takes pictures is told.
type pictureScene struct {
	scene
	Models string `json:"models"`
	// Link signs in as hortus ui does, which may use directories of this machine.
	Link string `json:"link"`
	// Task waits for a release, Plan for its approval.
	Task    api.TaskID    `json:"task"`
	Plan    api.PlanID    `json:"plan"`
	Sandbox api.SandboxID `json:"sandbox"`
	// Folder gets the pictures.
	Folder string `json:"folder"`
}

const pictureAgents = `grades-7 shell python3 -m unittest 2>&1 | tail -12
grades-7 shell sed -n '/def median/,/^$/p' grades/statistics.py
grades-7 shell sed -i 's/(ordered\[middle\] + ordered\[middle + 1\])/(ordered[middle - 1] + ordered[middle])/' grades/statistics.py
grades-7 shell python3 -m unittest
grades-7 finish The median of an even number of points is the mean of the two in the middle. It took the second and the third of them.
grades-12 shell sed -i 's/(ordered\[middle\] + ordered\[middle + 1\])/(ordered[middle - 1] + ordered[middle])/' grades/statistics.py
grades-12 finish The median is right.
grades-13 shell printf 'import csv\n\n\ndef write(rows, to):\n    csv.writer(to).writerows(rows)\n' >grades/export.py
grades-13 hold export
grades-13 finish Rows are written as CSV.
grades-14 shell printf 'def ranks(points):\n    ordered = sorted(points, reverse=True)\n    return [ordered.index(p) + 1 for p in points]\n' >grades/ranks.py
grades-14 finish Equal points have the same rank.
grades-15 shell printf '\n\ndef table(points):\n    return list(zip(points, ranks(points)))\n' >>grades/report.py; sed -i '2i from grades.ranks import ranks' grades/report.py
grades-15 finish The report has a table of points and ranks.
`

// TestPictures has pictures of the console taken while a daemon works. go test ./test/console -run TestPictures -update keeps them, as does
// make pictures.
func TestPictures(t *testing.T) {
	if !*update {
		tier.Soak(t)
	}
	modules := needsBrowser(t)
	a := newAgents(t, pictureAgents)
	w := world.Open(t, world.Config{Config: daemon.Config{Getenv: a.getenv}})
	w.Isolates(t, "container")
	repository := filepath.Join(filepath.Dir(exampleRepository(t)), "grades")
	if err := os.Rename(filepath.Join(filepath.Dir(repository), "shop"), repository); err != nil {
		t.Fatal(err)
	}
	create := func(request string) api.CreateTask {
		return api.CreateTask{Request: request, Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"},
			Repo: &api.RepoTask{URL: repository, Verify: "python3 -m unittest", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}}}
	}
	s := pictureScene{
		scene:  scene{URL: w.URL, Admin: w.Key("default", api.RoleAdmin).Secret, Modules: modules, Chromium: chromium},
		Models: a.url, Link: world.Must(w.Client.Console(t.Context()))(t).URL, Folder: t.TempDir(),
	}
	if *update {
		s.Folder = world.Must(filepath.Abs(pictures))(t)
	}
	s.Task = world.Must(w.Client.Tasks.Create(t.Context(), create("[grades-7] The median of an even number of points is wrong")))(t).ID
	s.Plan = world.Must(w.Client.Plans.Create(t.Context(), plan.Create{Task: create("A report with ranks, also as CSV"), Approve: true, Items: []plan.Item{
		{ID: "median", Title: "Repair the median", Request: "[grades-12] Repair the median", Touches: []string{"grades/statistics.py"}},
		{ID: "export", Title: "Export rows as CSV", Request: "[grades-13] Export rows as CSV", Touches: []string{"grades/export.py"}, Creates: []string{"grades/export.py"}, Needs: []string{"median"}},
		{ID: "ranks", Title: "Rank students", Request: "[grades-14] Rank students by points", Touches: []string{"grades/ranks.py"}, Creates: []string{"grades/ranks.py"}, Needs: []string{"median"}},
		{ID: "report", Title: "Put both into the report", Request: "[grades-15] Put ranks and the export into the report", Touches: []string{"grades/report.py"}, Needs: []string{"export", "ranks"}},
	}}))(t).ID
	box := world.Must(w.Client.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "container", TTLMS: time.Hour.Milliseconds(),
		Egress: &api.EgressPolicy{Ask: true}, Labels: map[string]string{"for": "grades"}}))(t)
	s.Sandbox = box.ID()
	gittest.Git(t, repository, "archive", "-o", filepath.Join(filepath.Dir(repository), "grades.tar"), "HEAD")
	if err := box.WriteFile(t.Context(), "", "grades.tar", world.Must(os.Open(filepath.Join(filepath.Dir(repository), "grades.tar")))(t)); err != nil {
		t.Fatal(err)
	}
	if err := box.Command(t.Context(), "sh", "-c", "tar -xf grades.tar && rm grades.tar").Run(); err != nil {
		t.Fatal(err)
	}
	runScript(t, "pictures.mjs", s)
	for _, name := range []string{"home", "task", "plan", "plan-dark", "sandbox"} {
		if i, err := os.Stat(filepath.Join(s.Folder, name+".webp")); err != nil || i.Size() < 10_000 || i.Size() > 200_000 {
			t.Errorf("the picture %s: %v, %v", name, i, err)
		}
	}
}
