package story

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/client"
)

// installs writes enough files for a packed layer.
const installs = "mkdir deps; i=0; while [ $i -lt 600 ]; do echo $i >deps/$i; i=$((i+1)); done; head -c 8000000 /dev/urandom >deps/big; sha256sum <deps/big >deps/sum; echo whole >deps/made"

// installed holds if the result of installs is whole.
const installed = "test $(ls deps | wc -l) = 603 && grep -qx whole deps/made && grep -qx 599 deps/599 && [ \"$(cat $(seq -f deps/%g 0 599) | cksum)\" = \"$(seq 0 599 | cksum)\" ] && [ \"$(sha256sum <deps/big)\" = \"$(cat deps/sum)\" ]"

// add connects a repository, which is cloned.
func (k *killing) add() act {
	name := fmt.Sprintf("copy-%d", k.next())
	dir := makeRepo(k.t, k.g, map[string]string{"a": name})
	gitIn(k.t, dir, "pull", "-q", "--no-rebase", "--allow-unrelated-histories", "--no-edit", k.source, "main")
	run := k.g.start("repo", "add", dir, "--name", name)
	return act{run: run, begun: k.fetching(name), over: run.succeeded, check: func() {
		k.t.Helper()
		if !k.connected(name) {
			k.g.must("repo", "add", dir, "--name", name)
		}
		k.cloned(dir, name)
		k.g.must("repo", "rm", name)
	}}
}

// sync fetches new commits.
func (k *killing) sync() act {
	if !k.connected("source") {
		k.g.must("repo", "add", k.source, "--name", "source")
	}
	k.commit(k.source, "more", k.noise(8<<20))
	run := k.g.start("repo", "sync", "source")
	return act{run: run, begun: k.fetching("source"), over: run.succeeded, check: func() {
		k.t.Helper()
		k.cloned(k.source, "source")
	}}
}

// fetching asks whether a repository is fetched.
func (k *killing) fetching(name string) func() bool {
	c := k.client()
	return func() bool {
		r, err := c.Repositories.Get(context.Background(), name)
		return err == nil && r.State == api.RepositoryFetching
	}
}

// connected reports whether a repository is connected.
func (k *killing) connected(name string) bool {
	k.t.Helper()
	all := decode[[]api.Repository](k.t, k.g.must("repo", "ls", "--json"))
	return slices.ContainsFunc(all, func(r api.Repository) bool { return r.Name == name })
}

// cloned wants a repository's copy to have what it has, once it was fetched again.
func (k *killing) cloned(dir, name string) {
	k.t.Helper()
	k.g.must("repo", "sync", name)
	head := strings.TrimSpace(gitIn(k.t, dir, "rev-parse", "HEAD"))
	r := decode[api.Repository](k.t, k.g.must("repo", "show", name, "--json"))
	if r.State != api.RepositoryReady || r.Commit != head {
		k.t.Errorf("%s is %s at %s, want %s", name, r.State, r.Commit, head)
	}
	found := false
	for _, copy := range k.glob("repositories/*.git") {
		if slices.Contains(strings.Fields(gitIn(k.t, copy, "-c", "safe.directory=*", "for-each-ref", "--format=%(objectname)")), head) {
			found = true
			gitIn(k.t, copy, "-c", "safe.directory=*", "fsck", "--strict")
		}
	}
	if !found {
		k.t.Errorf("no copy has %s of %s", head, name)
	}
	if half := k.glob("repositories/*.new"); len(half) > 0 {
		k.t.Errorf("after a fetch there is %q", half)
	}
}

// install runs the steps of a setup that nobody ran before.
func (k *killing) install() act {
	return k.prepare("[setup] begins: make", "[setup] make in")
}

// pack makes a layer of what the steps wrote.
func (k *killing) pack() act {
	return k.prepare("[setup] begins: sealing", "[setup] sealed")
}

func (k *killing) prepare(begun, over string) act {
	k.t.Helper()
	for name, text := range recipe(fmt.Sprintf("%s # %d", installs, k.next())) {
		if strings.HasSuffix(name, "setup.yaml") {
			k.commit(k.setup, name, text)
		}
	}
	run := k.g.start("repo", "prepare", k.setup)
	return act{run: run, begun: run.said(begun), over: run.said(over), check: k.prepared}
}

// prepared wants the next setup to be whole, in a gate.
func (k *killing) prepared() {
	k.t.Helper()
	if run := k.g.gate(k.setup, installed); !strings.Contains(run.stderr, before+"passed") {
		k.t.Errorf("the next setup is not whole: %s", run)
	}
}

// attach starts a sandbox with the workspace.
func (k *killing) attach(isolation string) act {
	label := fmt.Sprintf("n=%d", k.next())
	run := k.g.start("sandbox", "create", "--ttl", "10m", "--label", label, "--isolation", isolation, "--workspace", "shop")
	c, value := k.client(), strings.TrimPrefix(label, "n=")
	begun := func() bool {
		all, err := c.Sandboxes.List(context.Background(), true)
		return err == nil && slices.ContainsFunc(all, func(s api.Sandbox) bool { return s.Labels["n"] == value })
	}
	return act{run: run, begun: begun, over: run.succeeded, check: func() {}}
}

// attachTask starts a task over what was installed.
func (k *killing) attachTask() act {
	k.t.Helper()
	k.prepared()
	run := k.g.start("task", "--repo", k.setup, "--author", "Ada <ada@example.org>", "--rounds", "0", "--steps", "1", "--model", "offline", "--verify", installed, "Fix the failing test")
	return act{run: run, begun: run.said("[setup] reused"), over: run.said(before), check: k.prepared}
}

// write writes files and reports each one that was completed.
func (k *killing) write(everything bool) act {
	k.t.Helper()
	n := k.next()
	sandbox := strings.TrimSpace(k.g.must("sandbox", "create", "--ttl", "10m", "--workspace", "shop"))
	run := k.g.start("sandbox", "exec", sandbox, "--", "sh", "-c", writes(n, 200))
	return act{run: run, begun: run.said("done "), over: run.said("\nend\n"), everything: everything, check: func() {
		k.t.Helper()
		k.ledger.read(n, run.output.String())
	}}
}

// seal seals the workspace, or copies it, after files were written to it.
func (k *killing) seal(verb string) act {
	k.t.Helper()
	n := k.next()
	k.ledger.read(n, k.g.must("sandbox", "run", "--workspace", "shop", "--", "sh", "-c", writes(n, 100)))
	if n, ok := k.ledger[n]; !ok || n.files != 100 {
		k.t.Fatalf("%+v of 100 files were written", n)
	}
	args := []string{"workspace", verb, "shop"}
	copied := "copy-" + strconv.Itoa(n)
	if verb == "fork" {
		args = append(args, copied)
	}
	run := k.g.start(args...)
	c := k.client()
	begun := func() bool {
		w, err := c.Workspaces.Get(context.Background(), k.shop)
		return err == nil && w.State == api.WorkspaceActive
	}
	return act{run: run, begun: begun, over: run.succeeded, check: func() {
		k.t.Helper()
		if verb == "seal" {
			return // the ledger is checked
		}
		all := decode[[]api.Workspace](k.t, k.g.must("workspace", "ls", "--json"))
		if !slices.ContainsFunc(all, func(w api.Workspace) bool { return w.Name == copied }) {
			k.g.must("workspace", "fork", "shop", copied)
		}
		k.ledger.exported(k, copied)
		k.g.must("workspace", "rm", copied)
	}}
}

// client is one for a few questions.
func (k *killing) client() *client.Client {
	c := k.g.client()
	k.t.Cleanup(func() { c.Close() })
	return c
}
