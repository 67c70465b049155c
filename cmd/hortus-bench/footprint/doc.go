// Package footprint measures the memory of processes.
//
//	before, _ := footprint.Of(footprint.Below())
//	start()
//	after, whole := footprint.Of(footprint.Below())
//	if whole {
//		fmt.Println(after.All - before.All)
//	}
//
// It reads /proc when it is asked, and keeps nothing. A process that ends meanwhile is one whose memory
// cannot be read. The package must not know what a sandbox is, nor what a row of a measurement is.
package footprint
