// Package admin has the words of those who operate Hortus: what a daemon is and can do, what its
// data directory holds, and statistics of tasks.
//
//	var used admin.DiskUsage
//	for _, part := range used.Parts {
//		fmt.Println(part.Name, part.Bytes)
//	}
//
// The package has types alone. It must not know anything but package api.
package admin
