// Containerd-shim-runsc-v1 is gVisor's shim for containerd, with two differences for machines of tests. It starts if it cannot give
// itself a low score for the OOM killer, which needs CAP_SYS_RESOURCE. And it prints its address alone, for containerd 1.6.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	_ "unsafe" // for go:linkname

	"github.com/containerd/containerd/v2/pkg/shim"
	"gvisor.dev/gvisor/shim/v1/cli"
)

// inUserNS says whether this process is in a user namespace, where the shim ignores the error of the score.
//
//go:linkname inUserNS github.com/moby/sys/userns.inUserNS
var inUserNS func() bool

func main() {
	inUserNS = func() bool { return true }
	if os.Args[len(os.Args)-1] != "start" {
		cli.Main()
		return
	}
	out := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout = w
	cli.Main() // ends the process if it fails
	var params shim.BootstrapParams
	if err := json.NewDecoder(r).Decode(&params); err != nil {
		log.Fatal(err)
	}
	fmt.Fprint(out, params.Address)
}
