// Package spent has the statements about the table secret_spent: what requests with a secret used
// of its budgets.
//
//	over, err := spent.Reserve(ctx, tx, by, amounts) // in a transaction
//	err = spent.Settle(ctx, db, by, change)
//
// It keeps nothing and has nothing to close. The package must not know how a database is opened, or
// its other tables but by their columns; package sqlite calls it and explains its errors.
package spent
