// Package lists gives the lists that the manager of sandboxes, tasks, snapshots, workspaces
// and servers declare in their interfaces, over the filters and cursors of the store.
//
//	rows := lists.Lists{Store: db}
//	page, next, err := rows.SandboxPage(ctx, account, all, api.PageRequest{Limit: 100})
//
// The package must not know who asks or may ask. It keeps no state: a Lists lives as long as
// its database.
package lists
