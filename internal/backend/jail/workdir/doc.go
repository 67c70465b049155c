// Package workdir gives a sandbox its /workspace: layers, and above them either the
// sandbox's own disk or a durable workspace on the host's disk. It leases them, describes
// the overlay to the stage, and watches how much is written to a durable one.
//
// It must not know how a sandbox is started or ended: it names the limit that was
// exceeded, and the machine acts.
//
// A [Dir] is made by Attach, or by Reattach for a sandbox of a daemon that ended. Release
// gives it up after the sandbox's last process has ended, Leave while the sandbox keeps
// running. A nil Dir is a sandbox with a plain /workspace.
//
//	d, err := mounter.Attach(ctx, spec.Workspace)
//	defer d.Release()
//	is.Workspace, err = d.Stage(pid, userns, add)
package workdir
