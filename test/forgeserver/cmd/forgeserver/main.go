package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"hortus.dev/test/forgeserver"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the address to serve on")
	kind := flag.String("kind", forgeserver.GitHub, "the forge: github, gitlab or gitea")
	token := flag.String("token", "", "the token that may write")
	user := flag.String("user", "hortus", "whose token it is")
	show := flag.Bool("requests", false, "print merge requests as they change")
	var repos []*forgeserver.Repository
	flag.Func("repo", "OWNER/NAME=DIR, a bare git repository (repeatable)", func(s string) error {
		path, dir, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("want OWNER/NAME=DIR")
		}
		repos = append(repos, &forgeserver.Repository{Path: path, Dir: dir, Protected: []string{"main"}})
		return nil
	})
	var issues []forgeserver.Issue
	flag.Func("issue", "OWNER/NAME#NUMBER=TITLE, an open issue (repeatable)", func(s string) error {
		at, title, ok := strings.Cut(s, "=")
		path, number, numbered := strings.Cut(at, "#")
		n, err := strconv.Atoi(number)
		if !ok || !numbered || err != nil {
			return fmt.Errorf("want OWNER/NAME#NUMBER=TITLE")
		}
		issues = append(issues, forgeserver.Issue{Repository: path, Number: n, Title: title, Author: *user})
		return nil
	})
	flag.Parse()
	cfg := forgeserver.Config{Kind: *kind, Repositories: repos, Users: map[string]forgeserver.User{*token: {Login: *user, Write: true}}}
	if err := serve(*listen, cfg, issues, *show); err != nil {
		fmt.Fprintln(os.Stderr, "forgeserver:", err)
		os.Exit(1)
	}
}

func serve(listen string, cfg forgeserver.Config, issues []forgeserver.Issue, show bool) error {
	s, err := forgeserver.New(cfg)
	if err != nil {
		return err
	}
	for _, i := range issues {
		s.AddIssue(i)
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", ln.Addr())
	var h http.Handler = s
	if show {
		h = printing{s}
	}
	return http.Serve(ln, h)
}

// printing prints the merge requests after each call that may have changed them.
type printing struct{ *forgeserver.Server }

func (p printing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.Server.ServeHTTP(w, r)
	if r.Method == http.MethodGet {
		return
	}
	for _, pull := range p.Pulls() {
		line, err := json.Marshal(pull)
		if err != nil {
			panic(err) // impossible: a struct of strings
		}
		fmt.Println(string(line))
	}
}
