//go:build !embedrunsc

package embedded

// Runsc returns the embedded gVisor's executable; empty when there is none.
func Runsc() []byte { return nil }
