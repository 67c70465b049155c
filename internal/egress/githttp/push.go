package githttp

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"hortus.dev/api/secrets"
)

// maxSteps bounds the comparisons of refs with patterns for one push.
const maxSteps = 4 << 20

// push checks the body of git-receive-pack. Its first step is the list of commands; each later
// one is a part of the pack.
type push struct {
	rule   secrets.Git
	src    *source
	limits limits

	read     bool // the list was read
	complete bool // and it was whole, with names that can be in a report
	refused  *Refusal
	commands []command
	sha256   bool
	report   bool
	sideband bool
	pack     *packReader
}

// command is a change of a ref.
type command struct{ old, new, ref string }

func isZero(id string) bool { return strings.Trim(id, "0") == "" }

func (c command) creates() bool { return isZero(c.old) }
func (c command) deletes() bool { return isZero(c.new) }

// step checks the list of commands, or a part of the pack.
func (p *push) step() error {
	var err error
	switch {
	case !p.read:
		p.read = true
		err = p.list()
	case p.pack == nil:
		err = p.end()
	default:
		err = p.pack.step()
	}
	if err == nil || err == io.EOF {
		return err
	}
	if failure := p.src.failure(); failure != nil && failure != errInflate {
		return failure
	}
	var refused *Refusal
	if !errors.As(err, &refused) {
		refused = refuse(p.rule, "the push is malformed: %v", err)
	}
	if p.complete {
		refused.push = p
	}
	return refused
}

// end is the step behind a list without a pack.
func (p *push) end() error {
	ended, err := p.src.ended()
	if err == nil && !ended {
		err = refuse(p.rule, "a push without new objects has no pack")
	}
	if err == nil {
		err = io.EOF
	}
	return err
}

// list reads all commands, then checks them.
func (p *push) list() error {
	shallow := 0 // length of the ids in shallow lines
	for {
		kind, text, err := readLine(p.src)
		switch {
		case err == io.EOF:
			return errors.New("the list of commands does not end")
		case err != nil:
			return err
		case p.src.n > int64(p.limits.list):
			return refuse(p.rule, "the list of commands is larger than %d KiB", p.limits.list>>10)
		case kind == flushLine:
			return p.checkAll(shallow)
		case kind != dataLine:
			return errors.New("there is a delimiter in the list of commands")
		}
		if id, ok := strings.CutPrefix(string(text), "shallow "); ok && len(p.commands) == 0 {
			if !isID(id) || shallow != 0 && len(id) != shallow {
				return errors.New("a line \"shallow\" has no id of a commit")
			}
			shallow = len(id)
			continue
		}
		if len(p.commands) == p.limits.commands {
			return refuse(p.rule, "the push has more than %d commands", p.limits.commands)
		}
		if len(p.commands) == 0 {
			line, capabilities, _ := bytes.Cut(text, []byte{0})
			if string(line) == "push-cert" {
				return refuse(p.rule, "signed pushes are not possible: their commands are in a certificate")
			}
			p.refused = p.capabilities(string(capabilities))
			text = line
		}
		c, err := parseCommand(string(text))
		if err != nil {
			return err
		}
		p.commands = append(p.commands, c)
	}
}

// capabilities reads what the client asks for.
func (p *push) capabilities(text string) (refused *Refusal) {
	for c := range strings.SplitSeq(text, " ") {
		switch c {
		case "", "atomic", "quiet", "ofs-delta", "delete-refs", "object-format=sha1":
		case "report-status", "report-status-v2":
			p.report = true
		case "side-band-64k":
			p.sideband = true
		case "object-format=sha256":
			p.sha256 = true
		case "push-options":
			refused = refuse(p.rule, "push options are not possible: what a server does for them is not known")
		default:
			if !commonCapability(c) && refused == nil {
				refused = refuse(p.rule, "the capability %.80q is not possible", c)
			}
		}
	}
	return refused
}

func parseCommand(text string) (command, error) {
	old, rest, _ := strings.Cut(text, " ")
	id, ref, _ := strings.Cut(rest, " ")
	if !isID(old) || !isID(id) || len(old) != len(id) || ref == "" {
		return command{}, errors.New("a command is not two ids and the name of a ref")
	}
	return command{old, id, ref}, nil
}

// checkAll checks the commands, and prepares for the pack.
func (p *push) checkAll(shallow int) error {
	if len(p.commands) == 0 {
		if shallow != 0 {
			return errors.New("there are no commands")
		}
		return nil // git tests with it whether it may push
	}
	length, pack, steps, seen := 40, false, maxSteps, map[string]bool{}
	if p.sha256 {
		length = 64
	}
	if shallow != 0 && shallow != length {
		return errors.New("the ids do not have the length of their format")
	}
	// A name that git would not accept has no place in a report.
	for _, c := range p.commands {
		why := badRef(c.ref)
		if why == "" && len(c.old) != length {
			why = "its ids do not have the length of their format"
		}
		if why == "" && seen[c.ref] {
			why = "it is there twice"
		}
		if why != "" {
			return refuse(p.rule, "the ref %.100q cannot be pushed: %s", c.ref, why)
		}
		seen[c.ref] = true
	}
	p.complete = true
	if p.refused != nil {
		return p.refused
	}
	var updates []command
	for _, c := range p.commands {
		if err := p.checkCommand(c, &steps); err != nil {
			err.ref = c.ref
			return err
		}
		pack = pack || !c.deletes()
		if !c.creates() && !c.deletes() && !p.rule.Force {
			updates = append(updates, c)
		}
	}
	if pack {
		p.pack = newPackReader(p.rule, p.src, p.limits.pack, p.sha256, updates)
	}
	return nil
}

func (p *push) checkCommand(c command, steps *int) *Refusal {
	switch {
	case !matches(p.rule.Push, c.ref, steps):
		return refuse(p.rule, "the ref %.100q may not be pushed", c.ref)
	case c.old == c.new:
		return refuse(p.rule, "the command for %.100q changes nothing", c.ref)
	case c.deletes() && !p.rule.Delete:
		return refuse(p.rule, "the ref %.100q may not be deleted", c.ref)
	case !p.rule.Force && !c.creates() && !c.deletes() && strings.HasPrefix(c.ref, "refs/tags/"):
		return refuse(p.rule, "the tag %.100q exists and may not be moved", c.ref)
	}
	return nil
}
