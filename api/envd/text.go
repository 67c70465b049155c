package envd

import (
	"unicode/utf8"

	"hortus.dev/api"
)

// checkText refuses a request whose strings a message cannot carry. What is not
// UTF-8 would be replaced on the way, and would then name another file, another
// process, or be another argument.
func checkText(m Message) error {
	switch m := m.(type) {
	case *PathRequest:
		return utf8Only("path", m.Path)
	case *ListDirRequest:
		return utf8Only("path", m.Path)
	case *WatchRequest:
		return utf8Only("path", m.Path)
	case *MoveRequest:
		return utf8Only("path", m.Source, m.Destination)
	case *StartRequest:
		return checkStart(m)
	case *ConnectRequest:
		return checkSelector(m.Process)
	case *UpdateRequest:
		return checkSelector(m.Process)
	case *SendInputRequest:
		return checkSelector(m.Process)
	case *SendSignalRequest:
		return checkSelector(m.Process)
	case *CloseStdinRequest:
		return checkSelector(m.Process)
	}
	return nil
}

func checkStart(m *StartRequest) error {
	if m.Tag != nil {
		if err := utf8Only("tag", *m.Tag); err != nil {
			return err
		}
	}
	p := m.Process
	if p == nil {
		return nil
	}
	if p.Cwd != nil {
		if err := utf8Only("directory", *p.Cwd); err != nil {
			return err
		}
	}
	for k, v := range p.Envs {
		if err := utf8Only("environment variable", k, v); err != nil {
			return err
		}
	}
	if err := utf8Only("command", p.Cmd); err != nil {
		return err
	}
	return utf8Only("argument", p.Args...)
}

func checkSelector(s *Selector) error {
	if s == nil || s.Tag == nil {
		return nil
	}
	return utf8Only("tag", *s.Tag)
}

func utf8Only(what string, texts ...string) error {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return api.Errorf(api.KindInvalid, "the %s %.80q is not valid UTF-8", what, s).
				WithHint("Rename it inside the sandbox; reading and writing files works with any name.")
		}
	}
	return nil
}
