// This program answers each connection with random numbers of Go, one "name value" a line. A
// connection that sends "hook" has what can be seeded seeded first.
package main

import (
	"crypto/ecdh"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

func main() {
	source := rand.NewPCG(rand.Uint64(), rand.Uint64())
	draw := func(c net.Conn) {
		b := make([]byte, 16)
		crand.Read(b)
		key, err := ecdh.P256().GenerateKey(crand.Reader)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(c, "crypto/rand.Read %x\n", b)
		fmt.Fprintf(c, "crypto/ecdh %x\n", key.PublicKey().Bytes())
		fmt.Fprintf(c, "math/rand/v2.Uint64 %x\n", rand.Uint64())
		fmt.Fprintf(c, "math/rand/v2.PCG %x\n", source.Uint64())
	}
	l, err := net.Listen("tcp", "127.0.0.1:7303")
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile("go.ready", nil, 0o600); err != nil {
		panic(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		b := make([]byte, 100)
		if n, _ := c.Read(b); string(b[:n]) == "hook\n" {
			var seed [16]byte
			crand.Read(seed[:])
			source.UnmarshalBinary(append([]byte("pcg:"), seed[:]...))
		}
		draw(c)
		c.Close()
	}
}
