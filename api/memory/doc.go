// Package memory adds up the memory of several sandboxes, of which some is shared.
//
//	use := memory.Of(stats)
//	fmt.Println(use.OwnBytes + use.SharedBytes)
//
// It is for clients too, and keeps nothing.
package memory
