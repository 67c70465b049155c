package sandboxtest

import (
	"strings"
	"sync"
	"testing"

	"hortus.dev/test/tier"
)

// trustProgram is a program that connects to $URL, which a server in the sandbox with a
// certificate for localhost serves: it answers 200 for /, and 404 for everything else.
type trustProgram struct {
	name string
	// needs are the programs that it needs.
	needs string
	// script ends with 0 if the connection was trusted, or its output contains one of
	// trusted: the program needs more than the server has.
	script  string
	trusted []string
	// variables is true if it does not read the stores of the system; with maybe, some
	// systems have changed that.
	variables, maybe bool
	// cost selects when it runs, because some programs take seconds.
	cost cost
}

// cost is what a program costs.
type cost int

const (
	always cost = iota // it runs in every phase of a test
	once               // it runs in T1 where a test wants all programs
	soak               // only T2 runs it
)

const javaClient = `import java.net.*;
class Get { public static void main(String[] a) throws Exception { System.out.println(((HttpURLConnection) new URL(a[0]).openConnection()).getResponseCode()); } }`

var trustPrograms = []trustProgram{
	{name: "curl", needs: "curl", script: "curl -sS $URL"},
	{name: "openssl", needs: "openssl", script: "openssl s_client -verify_return_error -connect ${URL#https://} </dev/null"},
	{name: "wget", needs: "wget", script: "wget -nv -O- --tries=1 $URL/"},
	{name: "git", needs: "git", script: "git ls-remote $URL/x.git", trusted: []string{"not found", "404"}},
	{name: "python", needs: "python3", script: `python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1])' $URL`},
	{name: "node", variables: true, needs: "node", script: `node -e 'require("https").get(process.argv[1], r => process.exit(0)).on("error", e => { console.error(e.message); process.exit(1) })' $URL`},
	{name: "go", needs: "go", script: "cd /tmp && GOTOOLCHAIN=local GOFLAGS=-mod=mod GOPROXY=$URL GOSUMDB=off go list -m -versions example.org/m", trusted: []string{"404 Not Found"}},
	{name: "requests", maybe: true, needs: "python3 pip3", script: `python3 -c 'import sys
from pip._vendor import requests
requests.get(sys.argv[1])' $URL`},
	{name: "java", needs: "java javac", cost: once, script: "[ -d /tmp/java ] || { mkdir /tmp/java && echo '" + javaClient + "' >/tmp/java/Get.java && javac -d /tmp/java /tmp/java/Get.java; }; java -Xshare:auto -XX:TieredStopAtLevel=1 -cp /tmp/java Get $URL"},
	{name: "pip", maybe: true, needs: "pip3", cost: soak, script: "pip3 download --disable-pip-version-check --retries 0 --no-deps -d /tmp/pip -i $URL/simple hortus-none", trusted: []string{"No matching distribution found"}},
	{name: "npm", variables: true, needs: "npm", cost: soak, script: "NPM_CONFIG_GLOBALCONFIG=/tmp/none npm view --registry $URL/ --fetch-retries 0 hortus-none", trusted: []string{"E404"}},
	{name: "cargo", needs: "cargo", cost: soak, script: "HOME=/tmp CARGO_HOME=/tmp/cargo CARGO_NET_RETRY=0 CARGO_REGISTRIES_X_INDEX=sparse+$URL/ cargo search --registry x hortus-none", trusted: []string{"got 404", "config.json not found in registry"}},
}

// certificateErrors are what programs say about a certificate that they do not trust.
var certificateErrors = []string{"certificate", "SSL", "PKIX", "x509"}

// connect runs every program that the sandbox has, and checks which trust the server at url:
// the others must refuse its certificate. T1 leaves out programs that cost more than most.
// setup is a command of the shell before each one.
func (b *Sandbox) connect(t *testing.T, url, setup string, most cost, want func(trustProgram) bool) {
	t.Helper()
	var running sync.WaitGroup
	slots := make(chan struct{}, 2)
	for _, p := range trustPrograms {
		if p.cost > most && !tier.Soaking() {
			t.Logf("%s: it takes long, so only T2 runs it here", p.name)
			continue
		}
		if p.maybe && setup != "" {
			continue
		}
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r := b.sh(t, setup+"\nexport URL="+url+"; for p in "+p.needs+"; do command -v $p >/dev/null || { echo $p; exit 99; }; done; ( "+p.script+" ) 2>&1")
			if r.Code() == 99 {
				t.Logf("%s: the sandbox has no %s", p.name, strings.TrimSpace(r.Stdout))
				return
			}
			refused := r.Code() != 0 && containsAny(r.Stdout, certificateErrors)
			trusted := r.Code() == 0 || !refused && containsAny(r.Stdout, p.trusted)
			if want := want(p); trusted != want || refused == want {
				t.Errorf("%s: want trust %v, exit code %d:\n%.2000s", p.name, want, r.Code(), r.Stdout)
			}
		})
	}
	running.Wait()
}

func containsAny(s string, list []string) bool {
	for _, part := range list {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

func all(trustProgram) bool  { return true }
func none(trustProgram) bool { return false }
