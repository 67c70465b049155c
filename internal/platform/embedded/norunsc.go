//go:build !embedrunsc

package embedded

// Runsc returns the embedded gVisor; nil when there is none.
func Runsc() *Packed { return nil }
