// Package service starts the programs that run beside an agent and beside a gate, such as a database.
//
//	err := service.Start(ctx, box, services)
//
// A service ends with its sandbox; nothing of this package lives longer than a call. The package must not know what a service is for.
package service
