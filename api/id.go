package api

import (
	"crypto/rand"
	"strings"
)

// The identifiers are strings of lower-case letters and digits, 20 long, whose
// first letter tells the type. They carry no meaning and no order, are safe in
// a path, a host name label and a cgroup name, and one is never a prefix of
// another. They are made by a cryptographic generator; knowing one is no proof
// of anything all the same.
type (
	// SandboxID names a sandbox: "i" and 19 characters.
	SandboxID string
	// ExecID names one command in a sandbox: "x" and 19 characters.
	ExecID string
	// TaskID names a request: "t" and 19 characters.
	TaskID string
	// WorkspaceID names durable files: "w" and 19 characters.
	WorkspaceID string
	// SnapshotID names a saved state: "s" and 19 characters.
	SnapshotID string
	// RepositoryID names a connected repository: "r" and 19 characters.
	RepositoryID string
	// SessionID names a session: "c" and 19 characters.
	SessionID string
	// PlanID names a plan: "p" and 19 characters.
	PlanID string
	// OwnerID names one run of one daemon: "o" and 19 characters.
	OwnerID string
	// NodeID names one data directory of a fleet: "n" and 19 characters.
	NodeID string
)

// IDLen is the length of every identifier.
const IDLen = 20

// NewSandboxID makes a fresh identifier.
func NewSandboxID() SandboxID { return SandboxID(newID('i')) }

// NewExecID makes a fresh identifier.
func NewExecID() ExecID { return ExecID(newID('x')) }

// NewTaskID makes a fresh identifier.
func NewTaskID() TaskID { return TaskID(newID('t')) }

// NewWorkspaceID makes a fresh identifier.
func NewWorkspaceID() WorkspaceID { return WorkspaceID(newID('w')) }

// NewSnapshotID makes a fresh identifier.
func NewSnapshotID() SnapshotID { return SnapshotID(newID('s')) }

// NewRepositoryID makes a fresh identifier.
func NewRepositoryID() RepositoryID { return RepositoryID(newID('r')) }

// NewSessionID makes a fresh identifier.
func NewSessionID() SessionID { return SessionID(newID('c')) }

// NewPlanID makes a fresh identifier.
func NewPlanID() PlanID { return PlanID(newID('p')) }

// NewOwnerID makes a fresh identifier.
func NewOwnerID() OwnerID { return OwnerID(newID('o')) }

// NewNodeID makes a fresh identifier.
func NewNodeID() NodeID { return NodeID(newID('n')) }

// NewLessonID makes a fresh identifier.
func NewLessonID() string { return newID('l') }

// Valid reports whether the identifier has the form that NewSandboxID makes.
func (id SandboxID) Valid() bool { return validID(string(id), 'i') }

// Valid reports whether the identifier has the form that NewExecID makes.
func (id ExecID) Valid() bool { return validID(string(id), 'x') }

// Valid reports whether the identifier has the form that NewTaskID makes.
func (id TaskID) Valid() bool { return validID(string(id), 't') }

// Valid reports whether the identifier has the form that NewWorkspaceID makes.
func (id WorkspaceID) Valid() bool { return validID(string(id), 'w') }

// Valid reports whether the identifier has the form that NewSnapshotID makes.
func (id SnapshotID) Valid() bool { return validID(string(id), 's') }

// Valid reports whether the identifier has the form that NewRepositoryID makes.
func (id RepositoryID) Valid() bool { return validID(string(id), 'r') }

// Valid reports whether the identifier has the form that NewSessionID makes.
func (id SessionID) Valid() bool { return validID(string(id), 'c') }

// Valid reports whether the identifier has the form that NewPlanID makes.
func (id PlanID) Valid() bool { return validID(string(id), 'p') }

// Valid reports whether the identifier has the form that NewNodeID makes.
func (id NodeID) Valid() bool { return validID(string(id), 'n') }

// Short is the form for people: four characters, as in "[task 4f2a]".
func (id TaskID) Short() string {
	if len(id) < 5 {
		return string(id)
	}
	return string(id[1:5])
}

const idAlphabet = "0123456789abcdefghijklmnopqrstuvwxyz"

func newID(kind byte) string {
	// 252 is the largest multiple of 36 below 256; bytes above it would favour
	// the first letters of the alphabet.
	var b strings.Builder
	b.WriteByte(kind)
	var buf [32]byte
	for b.Len() < IDLen {
		rand.Read(buf[:])
		for _, c := range buf {
			if c < 252 && b.Len() < IDLen {
				b.WriteByte(idAlphabet[c%36])
			}
		}
	}
	return b.String()
}

func validID(s string, kind byte) bool {
	if len(s) != IDLen || s[0] != kind {
		return false
	}
	for i := 1; i < len(s); i++ {
		if strings.IndexByte(idAlphabet, s[i]) < 0 {
			return false
		}
	}
	return true
}
