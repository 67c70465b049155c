// Command fetch prints the protocol and the body of a response. It is linked statically, so that
// no library of the sandbox has a part in it.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	http1 := flag.Bool("http1", false, "use HTTP/1.1")
	flag.Parse()
	c := http.Client{Transport: &http.Transport{ForceAttemptHTTP2: !*http1}}
	if *http1 {
		c.Transport = &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	}
	resp, err := c.Get(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(resp.Proto, string(body))
}
