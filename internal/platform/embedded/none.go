//go:build !embedguest

package embedded

// Guest gives the embedded guest's executable; empty when there is none.
func Guest() []byte { return nil }
