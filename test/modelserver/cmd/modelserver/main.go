package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"

	"hortus.dev/test/modelserver"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the address to serve on")
	flag.Parse()
	if err := serve(*listen, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "modelserver:", err)
		os.Exit(1)
	}
}

func serve(listen string, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: modelserver [-listen ADDRESS] SCENARIO")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	s, err := modelserver.New(text)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", ln.Addr())
	return http.Serve(ln, s)
}
