package restores

import (
	"context"
	"fmt"
	"strconv"

	"hortus.dev/internal/sandbox"
)

// dirtyFiles are the files that are written above the layer before a workspace is forked.
const dirtyFiles = 200

// inside are the times of the sandboxes' part.
type inside struct {
	plain, attached         series
	native, readOne, readIn series
	fork                    series
}

// sandboxes attaches the tree to sandboxes of a backend, beside sandboxes without it; reads
// everything there; changes some files; and forks the workspace when its sandbox is gone.
func (r *run) sandboxes(ctx context.Context, t Tree, backend string, h host) (err error) {
	ws, remove, err := r.Place(ctx, func(dir string) error { _, err := t.write(ctx, dir); return err })
	if err != nil {
		return err
	}
	defer remove()
	var in inside
	n := r.rounds()
	for i := range n {
		r.Step(backend, i, n)
		if err := r.round(ctx, backend, ws, h, &in); err != nil {
			return err
		}
	}
	r.Step(backend, n, n)
	attached := t.name("create to first exec", "attached")
	r.report(t.name("create to first exec", "without it"), backend, in.plain, "", nil, "cold")
	r.report(attached, backend, in.attached, t.name("create to first exec", "without it"), in.plain, "cold, over "+size(h.info))
	r.report(t.name("restore and create", archived), backend, sum(h.restore, in.plain), attached, in.attached, "the archive on the host, and a sandbox without it")
	native := t.name("read all", "find and cat")
	r.report(native, backend, in.native, "", nil, "on the host")
	r.report(t.name("read all", "first sandbox"), backend, in.readOne, native, in.native, "the same command, a new mount")
	r.report(t.name("read all", "next sandboxes"), backend, in.readIn, native, in.native, "the same command, after another sandbox has read it")
	r.report(t.name("fork", fmt.Sprint(dirtyFiles, " files changed")), backend, in.fork, t.name("restore", archived), h.restore, "")
	return nil
}

// round takes every way once.
func (r *run) round(ctx context.Context, backend string, ws sandbox.Workspace, h host, in *inside) error {
	id, took, err := r.Create(ctx, backend, nil)
	if err != nil {
		return err
	}
	in.plain = append(in.plain, took)
	r.Kill(id)
	if h.tree != "" {
		if err := in.native.take(func() error { return command(ctx, readEverything(h.tree)...) }); err != nil {
			return err
		}
	}
	if err := r.attach(ctx, backend, ws, in); err != nil {
		return err
	}
	var remove func(context.Context) error
	err = in.fork.take(func() (err error) { remove, err = r.Fork(ctx, ws.Upper); return err })
	if err != nil {
		return err
	}
	return remove(ctx)
}

// attach makes a sandbox with the tree, reads all of it and changes some files.
func (r *run) attach(ctx context.Context, backend string, ws sandbox.Workspace, in *inside) error {
	id, took, err := r.Create(ctx, backend, &ws)
	if err != nil {
		return err
	}
	defer r.Kill(id)
	in.attached = append(in.attached, took)
	read := &in.readIn
	if len(in.attached) == 1 {
		read = &in.readOne
	}
	err = read.take(func() error { _, err := r.In(ctx, id, readEverything("/workspace")); return err })
	if err != nil {
		return err
	}
	const change = `mkdir -p /workspace/changed && cd /workspace/changed && i=0 && while [ $i -lt "$0" ]; do echo "content $i" > file-$i; i=$((i+1)); done`
	_, err = r.In(ctx, id, []string{"sh", "-c", change, strconv.Itoa(dirtyFiles)})
	return err
}

// readEverything is a command that reads every file of a directory.
func readEverything(dir string) []string {
	return []string{"sh", "-c", `find "$0" -type f -print0 | xargs -0 cat > /dev/null`, dir}
}
