package repo

import (
	"context"

	"hortus.dev/internal/task/contract"
)

// What a task needs of others, see package contract.
type (
	Layer        = contract.Layer
	Computers    = contract.Computers
	Computer     = contract.Computer
	Conn         = contract.Conn
	Deliverer    = contract.Deliverer
	Proposal     = contract.Proposal
	Verdict      = contract.Verdict
	Emitter      = contract.Emitter
	Setup        = contract.Setup
	SetupRequest = contract.SetupRequest
	Service      = contract.Service
	Prepared     = contract.Prepared
	Worker       = contract.Worker
	Runtimes     = contract.Runtimes
	Runtime      = contract.Runtime
	Desk         = contract.Desk
	Sessions     = contract.Sessions
	Turn         = contract.Turn
)

// Serve starts services in a sandbox and waits until they are ready. They end with it.
func Serve(ctx context.Context, box Computer, services []Service) error {
	return contract.Serve(ctx, box, services)
}
