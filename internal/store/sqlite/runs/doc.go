// Package runs has the statements about the tables run and run_step: durable work and its steps.
//
//	try, err := runs.Begin(ctx, tx, run, owner, step) // in a transaction
//	err = runs.End(ctx, tx, run, owner, step)
//
// It keeps nothing and has nothing to close. The package must not know how a database is opened, or its
// other tables; package sqlite calls it and explains its errors.
package runs
