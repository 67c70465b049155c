package task

import "hortus.dev/api"

// fileFlags say which files of the repository an agent may read and which it may change.
type fileFlags struct {
	OffLimits []string `name:"off-limits" sep:"none" placeholder:"GLOB" help:"Files that the agent cannot read, in addition to the default list (.env*, private keys). !GLOB excludes files from the list. Repeatable."`
	ReadOnly  []string `name:"read-only" sep:"none" placeholder:"GLOB" help:"Files that the agent can read but not change. Repeatable."`
	Writable  []string `name:"writable" sep:"none" placeholder:"GLOB" help:"The only files that the agent can change. Repeatable."`
}

// policy checks the flags.
func (f *fileFlags) policy() (api.FilePolicy, error) {
	p := api.FilePolicy{OffLimits: f.OffLimits, ReadOnly: f.ReadOnly, Writable: f.Writable}
	err := p.CheckBounds()
	if err == nil {
		err = p.Check()
	}
	return p, err
}
