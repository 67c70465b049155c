package wasm

import (
	"context"
	"os"

	"hortus.dev/api"
)

// Probe implements sandbox.Backend. There is nothing to try: the backend works on every Linux host.
func (b *Backend) Probe(context.Context) api.BackendReport {
	runs := "JavaScript (qjs), Python (python3) and WASI modules"
	if _, err := os.Stat(b.python()); err != nil {
		runs = "JavaScript (qjs) and WASI modules; for Python: hortus wasm install python"
	}
	r := api.BackendReport{Backend: b.Name(), Abilities: []api.Ability{
		{Capability: api.CapStart, OK: true, Reason: runs},
		{Capability: api.CapIsolated, OK: true, Reason: "modules in processes without system calls; no kernel of their own"},
		{Capability: api.CapUserIdentity, OK: true, Reason: "one user, by name only"},
		{Capability: api.CapPause, OK: true},
		{Capability: api.CapLimitCPUTime, OK: true, Reason: "added up over live processes and the children that they reaped"},
		{Capability: api.CapLimitMemory, OK: true, Reason: "files and modules together"},
		{Capability: api.CapLimitProcs, OK: true, Reason: "commands that run; a module starts no processes"},
		{Capability: api.CapLimitDisk, OK: true, Reason: "files are in memory"},
		{Capability: api.CapLimitOutput, OK: true},
		{Capability: api.CapPrivateFiles, OK: true},
		{Capability: api.CapNoNetwork, OK: true, Reason: "a module has no sockets"},
		{Capability: api.CapPool, OK: true},
	}}
	for _, a := range []api.Ability{
		{Capability: api.CapRootIdentity, Reason: "a module has no users"},
		{Capability: api.CapLimitCPU, Reason: "the wasm backend uses no cgroup to limit"},
		{Capability: api.CapLimitDiskRate, Reason: "files are in memory"},
		{Capability: api.CapCheckpoint, Reason: "the memory of modules is not saved"},
		{Capability: api.CapWorkspace, Reason: "a module sees the files of its sandbox only, which are in memory"},
		{Capability: api.CapEgress, Reason: "a module has no sockets", Grade: api.EgressByNobody},
		{Capability: api.CapAdopt, Reason: "sandboxes end with the daemon"},
		{Capability: api.CapPrograms, Reason: "there is no root file system: a sandbox runs qjs, python3 and WASI modules, without packages such as NumPy"},
	} {
		switch a.Capability {
		case api.CapCheckpoint:
			a.Fix = "use --isolation gvisor"
		case api.CapLimitDiskRate: // no backend has it
		default:
			a.Fix = "use --isolation container"
		}
		r.Abilities = append(r.Abilities, a)
	}
	return r
}
