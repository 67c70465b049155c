// Package secrettest opens secrets over a real store, for tests.
//
//	all, db := secrettest.Open(t, t.TempDir(), secret.Config{})
//	row, err := all.Set(ctx, "", "token", secrets.Set{Value: value})
//
// Both are closed at the end of the test. The package must not know who uses secrets.
package secrettest
