package exec

import (
	"io"
	"net/http"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/process"
	"hortus.dev/internal/guest/rpc"
)

func (s *Service) update(_ *rpc.Conn, req *http.Request, in *envd.UpdateRequest) (*envd.Empty, error) {
	p, err := s.selected(req, in.Process)
	if err == nil && in.PTY != nil {
		err = p.Resize(in.PTY.Size)
	}
	return &envd.Empty{}, err
}

func (s *Service) closeStdin(_ *rpc.Conn, req *http.Request, in *envd.CloseStdinRequest) (*envd.Empty, error) {
	p, err := s.selected(req, in.Process)
	if err == nil {
		err = p.CloseInput()
	}
	return &envd.Empty{}, err
}

func (s *Service) sendInput(c *rpc.Conn, req *http.Request, in *envd.SendInputRequest) (*envd.Empty, error) {
	p, err := s.selected(req, in.Process)
	if err == nil {
		err = p.Feed(in.Input, c)
	}
	return &envd.Empty{}, err
}

// streamInput serves StreamInput, a client stream. It reads the next frame only after it
// wrote the previous one, so a slow command slows down the client.
func (s *Service) streamInput(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodPost); !ok {
		return err
	}
	codec, ok := envd.CodecOf(req.Header.Get("Content-Type"), true)
	if !ok {
		return c.Answer(http.StatusUnsupportedMediaType, "", nil)
	}
	if err := s.readInput(c, req, codec); err != io.EOF {
		return c.FailStream(codec, err)
	}
	out := c.Begin(codec)
	out.Message(&envd.Empty{})
	return out.Finish(nil)
}

// readInput returns io.EOF after the end of the stream.
func (s *Service) readInput(c *rpc.Conn, req *http.Request, codec envd.Codec) error {
	var p *process.Process
	fr := envd.FrameReader{R: req.Body}
	for {
		flags, payload, err := fr.Next()
		if err == io.EOF || (err == nil && flags&envd.FlagEnd != 0) {
			return io.EOF
		}
		var m envd.StreamInputRequest
		if err == nil {
			err = envd.Decode(payload, codec, &m)
		}
		if err != nil {
			return api.Errorf(api.KindInvalid, "read input stream: %w", err)
		}
		switch {
		case m.Start != nil:
			if p, err = s.selected(req, m.Start.Process); err != nil {
				return err
			}
		case m.Data != nil && p == nil:
			return api.Errorf(api.KindInvalid, "the input stream must start with a process")
		case m.Data != nil:
			if err := p.Feed(m.Data.Input, c); err != nil {
				return err
			}
		}
	}
}
