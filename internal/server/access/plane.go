package access

import (
	"context"
	"net"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/box"
	"hortus.dev/internal/sandbox/quota"
)

// DataPlane guards a sandbox for clients that showed the sandbox's own token, which the
// data plane checks. It bounds how often commands are started for the sandbox's key.
type DataPlane struct {
	sandboxes Lifecycle
	guests    Guests
	rates     *quota.Rates
}

// NewDataPlane guards sandboxes.
func NewDataPlane(sandboxes Lifecycle, guests Guests, rates *quota.Rates) *DataPlane {
	return &DataPlane{sandboxes, guests, rates}
}

// Get returns a sandbox.
func (d *DataPlane) Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	return d.sandboxes.Get(ctx, id)
}

// List lists the sandboxes; ended ones too if all is set.
func (d *DataPlane) List(ctx context.Context, all bool) ([]api.Sandbox, error) {
	return d.sandboxes.List(ctx, all)
}

// Wake resumes a paused sandbox for a request that reaches it.
func (d *DataPlane) Wake(ctx context.Context, id api.SandboxID) error {
	return d.sandboxes.Wake(ctx, id)
}

// Count counts a request for a sandbox among those of the sandbox's key and account; see
// [quota.CountRequest].
func (d *DataPlane) Count(ctx context.Context, id api.SandboxID) error {
	row, err := d.sandboxes.Get(ctx, id)
	if err == nil {
		err = quota.CountRequest(ctx, row.Account, row.Key)
	}
	return err
}

// StartExec starts a command, within the rate of the sandbox's key.
func (d *DataPlane) StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (box.Stream, error) {
	row, err := d.sandboxes.Get(ctx, id)
	if err == nil {
		err = d.rates.Command(row.Key)
	}
	if err != nil {
		return nil, err
	}
	return stream(d.guests.StartExec(ctx, id, req))
}

// AttachExec reads a command's output.
func (d *DataPlane) AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (box.Stream, error) {
	return stream(d.guests.AttachExec(ctx, id, exec, offset))
}

// ExecOf finds the recorded command that runs as a process.
func (d *DataPlane) ExecOf(id api.SandboxID, pid int) (api.ExecID, bool) {
	return d.guests.ExecOf(id, pid)
}

// Guest opens a stream to the guest.
func (d *DataPlane) Guest(ctx context.Context, id api.SandboxID) (net.Conn, error) {
	return d.guests.Guest(ctx, id)
}

// Dial opens a stream to a port inside.
func (d *DataPlane) Dial(ctx context.Context, id api.SandboxID, port int) (net.Conn, error) {
	return d.guests.Dial(ctx, id, port)
}
