//go:build embedrunsc

package embedded

import (
	_ "embed"
	"sync"
)

//go:embed guest/hortus-runsc.packed
var runsc []byte

// Runsc returns the embedded gVisor; nil when there is none.
var Runsc = sync.OnceValue(func() *Packed {
	p, err := Parse(runsc)
	if err != nil {
		panic("embedded gVisor: " + err.Error()) // the build is broken
	}
	return p
})
