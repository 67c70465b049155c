// Package contract declares what a task on a repository needs of others: computers with files, the setup of a repository,
// agents that are programs, a delivery, and a log. Package repo uses it under its own names.
//
//	var computers contract.Computers
//	box, err := computers.Open(ctx, req, workspace, nil)
//	err = contract.Serve(ctx, box, prepared.Services)
//	...
//	defer box.Close(ctx)
//
// Who implements an interface says how long its things live: a layer until its release, a [Computer] until Close, a workspace
// until it is discarded. The package holds nothing and starts no goroutine. It must not know who implements it, nor what a
// task does.
package repo
