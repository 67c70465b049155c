package story

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"hortus.dev/test/forgeserver"
)

// forgeCommands are the commands of stories about a forge:
//
//	forge KIND DIR             start a forge with a repository: a copy of the one in DIR, whose address is REMOTE. mae may write to it
//	model FILE                 play a scenario as the hosted models; its steps begin with ## step N ##
//	says AUTHOR NUMBER TEXT [PATH:LINE]
//	                           comment on a merge request, or on a line of it
//	fails NUMBER NAME TEXT     a check of the head of a merge request fails
//	merges NUMBER              merge a merge request
//	breaks METHOD PATH STATUS  the next such call of the forge's API fails
//	pulls FILE                 write the merge requests to a file
//	issue NUMBER TITLE         open an issue
//	hooks AUTHOR ID TEXT [SECRET]
//	                           send the event of a comment on issue 7 to HOOK, signed with HOOKSECRET; its answer is stdout
//	app FILE                   make GitHub App 1234, installed as 55 for the repository, and write its private key to a file
//	grants NAME LEVEL          give the installation of the app a permission, or take it (none)
//	comments NUMBER FILE       write the comments of an issue to a file
//	shows REGEXP ARGS...       run hortus ARGS until its output matches
func forgeCommands(cmds map[string]func(*testscript.TestScript, bool, []string)) {
	hubOf := func(ts *testscript.TestScript) *hub { return ts.Value("hub").(*hubOfStory).hub }
	number := func(ts *testscript.TestScript, s string) int {
		n, err := strconv.Atoi(s)
		ts.Check(err)
		return n
	}
	cmds["forge"] = func(ts *testscript.TestScript, _ bool, args []string) {
		inGarden(ts, func(g *garden) {
			h := newHub(g.t, g, args[0], ts.MkAbs(args[1]))
			ts.Value("hub").(*hubOfStory).hub = h
			ts.Setenv("REMOTE", h.remote("garden/plot"))
			ts.Setenv("BARE", h.bare("garden/plot"))
		})
	}
	cmds["model"] = func(ts *testscript.TestScript, _ bool, args []string) {
		text := scenarioStep.ReplaceAllString(ts.ReadFile(args[0]), "-- $1 --")
		inGarden(ts, func(g *garden) {
			withModels(g.t, g, text)
			withKeys(g, modelKey)
		})
	}
	cmds["says"] = func(ts *testscript.TestScript, _ bool, args []string) {
		c := forgeserver.Comment{Repository: "garden/plot", Author: args[0], Number: number(ts, args[1]), Body: args[2]}
		if path, line, ok := strings.Cut(args[len(args)-1], ":"); len(args) == 4 && ok {
			c.Path, c.Line = path, number(ts, line)
		}
		hubOf(ts).Comment(c)
	}
	cmds["fails"] = func(ts *testscript.TestScript, _ bool, args []string) {
		h := hubOf(ts)
		for _, p := range h.Pulls() {
			if p.Number == number(ts, args[0]) {
				at := strings.TrimSpace(gitIn(h.t, h.bare("garden/plot"), "rev-parse", "refs/heads/"+p.Source))
				h.Check(forgeserver.Check{Repository: "garden/plot", Commit: at, Name: args[1], State: "failure", Text: args[2], URL: "https://ci.example.org/1"})
			}
		}
	}
	cmds["merges"] = func(ts *testscript.TestScript, _ bool, args []string) {
		hubOf(ts).Change("garden/plot", number(ts, args[0]), func(p *forgeserver.Pull) { p.State = "merged" })
	}
	cmds["breaks"] = func(ts *testscript.TestScript, _ bool, args []string) {
		hubOf(ts).Fail(forgeserver.Fault{Method: args[0], Path: args[1], Status: number(ts, args[2]), Body: "{}"})
	}
	cmds["pulls"] = func(ts *testscript.TestScript, _ bool, args []string) {
		var b strings.Builder
		for _, p := range hubOf(ts).Pulls() {
			fmt.Fprintf(&b, "request %d %s: %s -> %s: %s\n%s\n", p.Number, p.State, p.Source, p.Target, p.Title, plain(p.Body))
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o600))
	}
	cmds["issue"] = func(ts *testscript.TestScript, _ bool, args []string) {
		hubOf(ts).AddIssue(forgeserver.Issue{Repository: "garden/plot", Number: number(ts, args[0]), Title: args[1], Author: "ann"})
	}
	cmds["hooks"] = func(ts *testscript.TestScript, _ bool, args []string) {
		secret := ts.Getenv("HOOKSECRET")
		if len(args) == 4 {
			secret = args[3]
		}
		e := forgeserver.Event{Repository: "garden/plot", Issue: 7, Title: "T", Author: "ann", Sender: args[0], Comment: int64(number(ts, args[1])), Text: args[2], At: time.Now()}
		resp, err := e.Delivery(hubOf(ts).kind, secret, false).Post(ts.Getenv("HOOK"))
		ts.Check(err)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		ts.Check(err)
		fmt.Fprintln(ts.Stdout(), resp.StatusCode, string(answer))
	}
	cmds["app"] = func(ts *testscript.TestScript, _ bool, args []string) {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600))
		hubOf(ts).AddApp(&forgeserver.App{ID: 1234, Slug: "gardener", Key: &key.PublicKey, Installations: []*forgeserver.Installation{{
			ID: 55, Account: "garden", Repositories: []string{"garden/plot"},
			Permissions: map[string]string{"metadata": "read", "contents": "write", "pull_requests": "write", "issues": "write", "checks": "read", "statuses": "read", "actions": "read"},
		}}})
	}
	cmds["grants"] = func(ts *testscript.TestScript, _ bool, args []string) {
		hubOf(ts).Reinstall(55, func(in *forgeserver.Installation) {
			permissions := maps.Clone(in.Permissions) // tokens that were issued keep theirs
			if permissions[args[0]] = args[1]; args[1] == "none" {
				delete(permissions, args[0])
			}
			in.Permissions = permissions
		})
	}
	cmds["comments"] = func(ts *testscript.TestScript, _ bool, args []string) {
		var b strings.Builder
		for _, c := range hubOf(ts).IssueComments("garden/plot", number(ts, args[0])) {
			b.WriteString(c.Body + "\n\n")
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(b.String()), 0o600))
	}
	cmds["shows"] = func(ts *testscript.TestScript, _ bool, args []string) {
		want, err := regexp.Compile("(?m)" + args[0])
		ts.Check(err)
		g := ts.Value("garden").(*garden)
		until(g.t, "hortus shows "+args[0], func() string {
			exits(ts, false, append([]string{"0", "hortus"}, args[1:]...))
			if out := ts.ReadFile("stdout"); !want.MatchString(out) {
				return out
			}
			return ""
		})
	}
}

// scenarioStep is the head of a step in a file of a story, whose own files have dashes there.
var scenarioStep = regexp.MustCompile(`(?m)^## (step \d+) ##$`)

// hubOfStory has the forge of a story.
type hubOfStory struct{ hub *hub }
