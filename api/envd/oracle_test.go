package envd

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
)

// The independent witness: the same messages as descriptors, read and written by
// the protobuf library.

type fieldSpec struct {
	name  string
	num   int32
	kind  string // a scalar, or a message's or enum's name
	label string // "", "repeated", "optional", "map" or a oneof's name
}

func field(s fieldSpec) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{
		Name: proto.String(s.name), Number: proto.Int32(s.num),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
	scalars := map[string]descriptorpb.FieldDescriptorProto_Type{
		"string": descriptorpb.FieldDescriptorProto_TYPE_STRING, "bytes": descriptorpb.FieldDescriptorProto_TYPE_BYTES,
		"uint32": descriptorpb.FieldDescriptorProto_TYPE_UINT32, "int64": descriptorpb.FieldDescriptorProto_TYPE_INT64,
		"sint32": descriptorpb.FieldDescriptorProto_TYPE_SINT32, "bool": descriptorpb.FieldDescriptorProto_TYPE_BOOL,
	}
	switch t, ok := scalars[s.kind]; {
	case ok:
		f.Type = t.Enum()
	case s.kind == "FileType" || s.kind == "EventType" || s.kind == "Signal":
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum()
		f.TypeName = proto.String(".t." + s.kind)
	case s.kind == "Timestamp":
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
		f.TypeName = proto.String(".google.protobuf.Timestamp")
	default:
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
		f.TypeName = proto.String(".t." + s.kind)
	}
	if s.label == "repeated" || s.label == "map" {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	return f
}

var schema = map[string][]fieldSpec{
	"Size":             {{"cols", 1, "uint32", ""}, {"rows", 2, "uint32", ""}},
	"PTY":              {{"size", 1, "Size", ""}},
	"ProcessConfig":    {{"cmd", 1, "string", ""}, {"args", 2, "string", "repeated"}, {"envs", 3, "EnvsEntry", "map"}, {"cwd", 4, "string", "optional"}},
	"ProcessInfo":      {{"config", 1, "ProcessConfig", ""}, {"pid", 2, "uint32", ""}, {"tag", 3, "string", "optional"}},
	"Selector":         {{"pid", 1, "uint32", "sel"}, {"tag", 2, "string", "sel"}},
	"StartRequest":     {{"process", 1, "ProcessConfig", ""}, {"pty", 2, "PTY", "optional"}, {"tag", 3, "string", "optional"}, {"stdin", 4, "bool", "optional"}},
	"OneSelector":      {{"process", 1, "Selector", ""}},
	"ProcessResponse":  {{"event", 1, "ProcessEvent", ""}},
	"ProcessEvent":     {{"start", 1, "StartEvent", "event"}, {"data", 2, "DataEvent", "event"}, {"end", 3, "EndEvent", "event"}, {"keepalive", 4, "Empty", "event"}},
	"StartEvent":       {{"pid", 1, "uint32", ""}, {"hortus_offset", 1001, "int64", ""}},
	"DataEvent":        {{"stdout", 1, "bytes", "output"}, {"stderr", 2, "bytes", "output"}, {"pty", 3, "bytes", "output"}, {"hortus_offset", 1001, "int64", ""}},
	"EndEvent":         {{"exit_code", 1, "sint32", ""}, {"exited", 2, "bool", ""}, {"status", 3, "string", ""}, {"error", 4, "string", "optional"}, {"hortus_cause", 1001, "string", ""}},
	"Empty":            {},
	"ListResponse":     {{"processes", 1, "ProcessInfo", "repeated"}},
	"UpdateRequest":    {{"process", 1, "Selector", ""}, {"pty", 2, "PTY", "optional"}},
	"ProcessInput":     {{"stdin", 1, "bytes", "input"}, {"pty", 2, "bytes", "input"}},
	"SendInputRequest": {{"process", 1, "Selector", ""}, {"input", 2, "ProcessInput", ""}},
	"StreamInput":      {{"start", 1, "OneSelector", "event"}, {"data", 2, "InputData", "event"}, {"keepalive", 3, "Empty", "event"}},
	"InputData":        {{"input", 2, "ProcessInput", ""}},
	"SendSignal":       {{"process", 1, "Selector", ""}, {"signal", 2, "Signal", ""}},
	"EntryInfo": {{"name", 1, "string", ""}, {"type", 2, "FileType", ""}, {"path", 3, "string", ""}, {"size", 4, "int64", ""}, {"mode", 5, "uint32", ""},
		{"permissions", 6, "string", ""}, {"owner", 7, "string", ""}, {"group", 8, "string", ""}, {"modified_time", 9, "Timestamp", ""},
		{"symlink_target", 10, "string", "optional"}, {"metadata", 11, "MetadataEntry", "map"}},
	"PathRequest":     {{"path", 1, "string", ""}},
	"EntryResponse":   {{"entry", 1, "EntryInfo", ""}},
	"MoveRequest":     {{"source", 1, "string", ""}, {"destination", 2, "string", ""}},
	"ListDirRequest":  {{"path", 1, "string", ""}, {"depth", 2, "uint32", ""}},
	"ListDirResponse": {{"entries", 1, "EntryInfo", "repeated"}},
	"WatchRequest":    {{"path", 1, "string", ""}, {"recursive", 2, "bool", ""}, {"include_entry", 3, "bool", ""}, {"allow_network_mounts", 4, "bool", ""}},
	"FilesystemEvent": {{"name", 1, "string", ""}, {"type", 2, "EventType", ""}, {"entry", 3, "EntryInfo", "optional"}},
	"WatchDirResponse": {{"start", 1, "Empty", "event"}, {"filesystem", 2, "FilesystemEvent", "event"},
		{"keepalive", 3, "Empty", "event"}},
	"WatcherID":     {{"watcher_id", 1, "string", ""}},
	"WatcherEvents": {{"events", 1, "FilesystemEvent", "repeated"}},
}

func enum(name string, values map[int32]string) *descriptorpb.EnumDescriptorProto {
	e := &descriptorpb.EnumDescriptorProto{Name: proto.String(name)}
	for n := int32(0); n < 32; n++ {
		if s, ok := values[n]; ok {
			e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String(s), Number: proto.Int32(n)})
		}
	}
	return e
}

func descriptors(t testing.TB) protoreflect.FileDescriptor {
	fd := &descriptorpb.FileDescriptorProto{
		Name: proto.String("t.proto"), Package: proto.String("t"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/timestamp.proto"},
		EnumType: []*descriptorpb.EnumDescriptorProto{
			enum("FileType", map[int32]string{0: "FILE_TYPE_UNSPECIFIED", 1: "FILE_TYPE_FILE", 2: "FILE_TYPE_DIRECTORY", 3: "FILE_TYPE_SYMLINK"}),
			enum("EventType", map[int32]string{0: "EVENT_TYPE_UNSPECIFIED", 1: "EVENT_TYPE_CREATE", 2: "EVENT_TYPE_WRITE", 3: "EVENT_TYPE_REMOVE", 4: "EVENT_TYPE_RENAME", 5: "EVENT_TYPE_CHMOD"}),
			enum("Signal", map[int32]string{0: "SIGNAL_UNSPECIFIED", 9: "SIGNAL_SIGKILL", 15: "SIGNAL_SIGTERM"}),
		},
	}
	for name, specs := range schema {
		m := &descriptorpb.DescriptorProto{Name: proto.String(name)}
		oneofs := map[string]int32{}
		var synthetic []*descriptorpb.FieldDescriptorProto
		for _, s := range specs {
			f := field(s)
			switch s.label {
			case "", "repeated":
			case "map":
				m.NestedType = append(m.NestedType, &descriptorpb.DescriptorProto{
					Name:    proto.String(s.kind),
					Field:   []*descriptorpb.FieldDescriptorProto{field(fieldSpec{"key", 1, "string", ""}), field(fieldSpec{"value", 2, "string", ""})},
					Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
				})
				f.TypeName = proto.String(".t." + name + "." + s.kind)
			case "optional":
				f.Proto3Optional = proto.Bool(true)
				synthetic = append(synthetic, f)
			default:
				i, ok := oneofs[s.label]
				if !ok {
					i = int32(len(m.OneofDecl))
					oneofs[s.label] = i
					m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String(s.label)})
				}
				f.OneofIndex = proto.Int32(i)
			}
			m.Field = append(m.Field, f)
		}
		for _, f := range synthetic {
			f.OneofIndex = proto.Int32(int32(len(m.OneofDecl)))
			m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_" + f.GetName())})
		}
		fd.MessageType = append(fd.MessageType, m)
	}
	file, err := protodesc.NewFile(fd, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func ptr[T any](v T) *T { return &v }

type sample struct {
	schema string
	msg    Message
	empty  func() Message
}

func samples() []sample {
	sel, tag := &Selector{PID: ptr(uint32(77))}, &Selector{Tag: ptr("t")}
	conf := &ProcessConfig{Cmd: "bash", Args: []string{"-c", "", "é"}, Envs: map[string]string{"A": "1", "B": ""}, Cwd: ptr("/tmp")}
	entry := &EntryInfo{Name: "f", Type: FileTypeSymlink, Path: "/a/f", Size: 1 << 40, Mode: 0o755, Permissions: "Lrwxrwxrwx", Owner: "user", Group: "g",
		ModifiedTime: time.Unix(1_700_000_000, 123_000_000).UTC(), SymlinkTarget: ptr("/b"), Metadata: map[string]string{"k": "v"}}
	big := bytes.Repeat([]byte("x"), 70_000)
	return []sample{
		{"Size", &Size{Cols: 80, Rows: 24}, func() Message { return new(Size) }},
		{"PTY", &PTY{Size: &Size{Cols: 300}}, func() Message { return new(PTY) }},
		{"ProcessConfig", conf, func() Message { return new(ProcessConfig) }},
		{"ProcessInfo", &ProcessInfo{Config: conf, PID: 1 << 31, Tag: ptr("")}, func() Message { return new(ProcessInfo) }},
		{"StartRequest", &StartRequest{Process: conf, PTY: &PTY{}, Tag: ptr("x"), Stdin: ptr(false)}, func() Message { return new(StartRequest) }},
		{"OneSelector", &ConnectRequest{Process: tag}, func() Message { return new(ConnectRequest) }},
		{"OneSelector", &CloseStdinRequest{Process: sel}, func() Message { return new(CloseStdinRequest) }},
		{"ProcessResponse", &ProcessResponse{Event: &ProcessEvent{Start: &StartEvent{PID: 5, Offset: 1 << 50}}}, func() Message { return new(ProcessResponse) }},
		{"ProcessResponse", &ProcessResponse{Event: &ProcessEvent{Data: &DataEvent{Stdout: big, Offset: 3}}}, func() Message { return new(ProcessResponse) }},
		{"ProcessResponse", &ProcessResponse{Event: &ProcessEvent{Data: &DataEvent{Stderr: []byte("e")}}}, func() Message { return new(ProcessResponse) }},
		{"ProcessResponse", &ProcessResponse{Event: &ProcessEvent{Data: &DataEvent{PTY: []byte{0, 255}}}}, func() Message { return new(ProcessResponse) }},
		{"ProcessResponse", &ProcessResponse{Event: &ProcessEvent{End: &EndEvent{ExitCode: -1, Exited: true, Status: "s", Error: ptr("e"), Cause: "timeout"}}}, func() Message { return new(ProcessResponse) }},
		{"ProcessResponse", &ProcessResponse{Event: &ProcessEvent{End: &EndEvent{ExitCode: 137}}}, func() Message { return new(ProcessResponse) }},
		{"ProcessResponse", &ProcessResponse{Event: &ProcessEvent{Keepalive: &Empty{}}}, func() Message { return new(ProcessResponse) }},
		{"ListResponse", &ListResponse{Processes: []*ProcessInfo{{PID: 1}, {PID: 2, Config: conf}}}, func() Message { return new(ListResponse) }},
		{"UpdateRequest", &UpdateRequest{Process: sel, PTY: &PTY{Size: &Size{Rows: 1}}}, func() Message { return new(UpdateRequest) }},
		{"SendInputRequest", &SendInputRequest{Process: sel, Input: &ProcessInput{Stdin: []byte("in")}}, func() Message { return new(SendInputRequest) }},
		{"SendInputRequest", &SendInputRequest{Process: sel, Input: &ProcessInput{PTY: []byte("in")}}, func() Message { return new(SendInputRequest) }},
		{"StreamInput", &StreamInputRequest{Start: &StreamInputStart{Process: sel}}, func() Message { return new(StreamInputRequest) }},
		{"StreamInput", &StreamInputRequest{Data: &StreamInputData{Input: &ProcessInput{Stdin: big}}}, func() Message { return new(StreamInputRequest) }},
		{"StreamInput", &StreamInputRequest{Keepalive: &Empty{}}, func() Message { return new(StreamInputRequest) }},
		{"SendSignal", &SendSignalRequest{Process: tag, Signal: 15}, func() Message { return new(SendSignalRequest) }},
		{"EntryInfo", entry, func() Message { return new(EntryInfo) }},
		{"PathRequest", &PathRequest{Path: "/"}, func() Message { return new(PathRequest) }},
		{"EntryResponse", &EntryResponse{Entry: entry}, func() Message { return new(EntryResponse) }},
		{"MoveRequest", &MoveRequest{Source: "a", Destination: "b"}, func() Message { return new(MoveRequest) }},
		{"ListDirRequest", &ListDirRequest{Path: "a", Depth: 3}, func() Message { return new(ListDirRequest) }},
		{"ListDirResponse", &ListDirResponse{Entries: []*EntryInfo{entry, {Name: "b"}}}, func() Message { return new(ListDirResponse) }},
		{"WatchRequest", &WatchRequest{Path: "a", Recursive: true, IncludeEntry: true, AllowNetworkMounts: true}, func() Message { return new(WatchRequest) }},
		{"WatchDirResponse", &WatchDirResponse{Start: &Empty{}}, func() Message { return new(WatchDirResponse) }},
		{"WatchDirResponse", &WatchDirResponse{Filesystem: &FilesystemEvent{Name: "n", Type: EventRename, Entry: entry}}, func() Message { return new(WatchDirResponse) }},
		{"WatchDirResponse", &WatchDirResponse{Keepalive: &Empty{}}, func() Message { return new(WatchDirResponse) }},
		{"WatcherID", &WatcherID{WatcherID: "w"}, func() Message { return new(WatcherID) }},
		{"WatcherEvents", &WatcherEvents{Events: []*FilesystemEvent{{Name: "x", Type: EventChmod}}}, func() Message { return new(WatcherEvents) }},
		{"Empty", &Empty{}, func() Message { return new(Empty) }},
	}
}

// What this package writes the protobuf library reads as the same, in both
// codecs, and the other way round; unknown fields are passed over.
func TestCodecsAgainstProtobuf(t *testing.T) {
	file := descriptors(t)
	unknown := []byte{0xf8, 0x7f, 7, 0xfa, 0x7f, 2, 'h', 'i', 0xfd, 0x7f, 1, 2, 3, 4, 0xf9, 0x7f, 1, 2, 3, 4, 5, 6, 7, 8}
	for _, s := range samples() {
		md := file.Messages().ByName(protoreflect.Name(s.schema))
		if md == nil {
			t.Fatalf("no schema %s", s.schema)
		}
		ours, err := Append(nil, Proto, s.msg)
		if err != nil {
			t.Fatal(err)
		}
		oursJSON, err := Append(nil, JSON, s.msg)
		if err != nil {
			t.Fatal(err)
		}
		a, b := dynamicpb.NewMessage(md), dynamicpb.NewMessage(md)
		if err := proto.Unmarshal(ours, a); err != nil {
			t.Errorf("%s: protobuf does not read ours: %v", s.schema, err)
			continue
		}
		if len(a.GetUnknown()) > 0 {
			t.Errorf("%s: fields that the schema does not know", s.schema)
		}
		if err := protojson.Unmarshal(oursJSON, b); err != nil {
			t.Errorf("%s: protojson does not read %s: %v", s.schema, oursJSON, err)
			continue
		}
		if !proto.Equal(a, b) {
			t.Errorf("%s: the two codecs differ:\n%v\n%v", s.schema, a, b)
		}
		theirs, err := proto.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		back := s.empty()
		if err := Decode(append(theirs, unknown...), Proto, back); err != nil {
			t.Errorf("%s: %v", s.schema, err)
		}
		if d := cmp.Diff(s.msg, back); d != "" {
			t.Errorf("%s: protobuf round trip: %s", s.schema, d)
		}
		if s.schema == "StartRequest" || s.schema == "SendSignal" || s.schema == "SendInputRequest" || s.schema == "ListDirRequest" {
			j, err := protojson.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			j = append(j[:len(j)-1:len(j)-1], `,"whatIsThis":[{"a":1}]}`...)
			back := s.empty()
			if err := Decode(j, JSON, back); err != nil {
				t.Errorf("%s: %s: %v", s.schema, j, err)
			}
			if d := cmp.Diff(s.msg, back); d != "" {
				t.Errorf("%s: JSON round trip: %s", s.schema, d)
			}
		}
	}
}

// The fast way to write output says the same as the general one.
func TestAppendDataHead(t *testing.T) {
	for _, n := range []int{1, 100, 127, 128, 16_000, 70_000} {
		for out := OutputStdout; out <= OutputPTY; out++ {
			p := bytes.Repeat([]byte("y"), n)
			d := &DataEvent{Offset: int64(n) * 1000}
			switch out {
			case OutputStdout:
				d.Stdout = p
			case OutputStderr:
				d.Stderr = p
			case OutputPTY:
				d.PTY = p
			}
			want, err := AppendFrame(nil, Proto, &ProcessResponse{Event: &ProcessEvent{Data: d}})
			if err != nil {
				t.Fatal(err)
			}
			if got := append(AppendDataHead(nil, out, d.Offset, n), p...); !bytes.Equal(got, want) {
				t.Errorf("%s, %d bytes: differs", out, n)
			}
		}
	}
}
