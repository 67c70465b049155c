//go:build !embedguest

package embedded

// Guest returns the embedded guest's executable; empty when there is none.
func Guest() []byte { return nil }
