package main

import "strings"

// group is the place in the tree of control groups in which a step runs.
type group string

const (
	// service is a group that root owns, like that of a system service.
	service group = "service"
	// delegated is a group in which its user may create groups, as systemd makes it
	// for Delegate=yes below a user's own manager.
	delegated group = "delegated"
	// session is the group of an ordinary login: root owns it and the user's processes
	// are in it.
	session group = "session"
	// Below a real systemd, which is started after all other steps: a scope with
	// Delegate=yes that a user creates from an ordinary login, an ordinary login, and
	// a system service with User= and Delegate=yes.
	systemdScope   group = "systemd, scope with Delegate"
	systemdPlain   group = "systemd, login"
	systemdService group = "systemd, service with Delegate"
)

// below reports whether a step runs below systemd.
func (s step) below() bool { return strings.HasPrefix(string(s.Group), "systemd, ") }

// step is one run of one test binary.
type step struct {
	Name    string
	Package string // relative to the module
	Args    []string
	UID     int
	Group   group
	// Must lists the full names of tests that must pass in this step. A skip of one
	// of them is a failure.
	Must []string
	// Named is true if the step is part of another one. It runs only if -run is given
	// and matches it.
	Named bool
}

// plan returns all steps.
func plan() []step {
	const (
		cgroups     = "internal/backend/jail/cgroup"
		container   = "internal/backend/jail"
		conformance = "test/conformance"
		attack      = "test/attack"
		story       = "test/story"
		shared      = "internal/storage/workspace/shared"
		user        = 1000
	)
	limits := []string{"-test.run", "^(TestProbe|Test.*Limits?|TestPause|TestAsked.*|TestKill.*|TestChangesOfLayers|TestGuestExit|TestReclaim.*|TestStartCanceled)$", "-test.short"}
	enforced := []string{"TestMemoryLimit", "TestProcessLimit", "TestCPULimits", "TestPause"}
	suite := []string{"-test.run", "^TestContainer$"}
	// The tests that differ most between the versions of control groups.
	short := []string{"-test.run", "^TestContainer$/^(started|claimed)$/^(limit|life)$"}
	// Floods of ten gigabytes do not depend on the version of control groups, and
	// would take most of the time.
	attacks := []string{"-test.skip", "^TestOutput$"}
	var conform []string
	for _, way := range []string{"started", "claimed"} {
		for _, limit := range []string{"memory", "processes", "cpu-share", "one-sandbox-does-not-starve-another"} {
			conform = append(conform, "TestContainer/"+way+"/limit/"+limit)
		}
	}
	return []step{
		{Name: "cgroup/root", Package: cgroups, Group: service, Must: []string{"TestRealGroup"}},
		{Name: "cgroup/delegated", Package: cgroups, Group: delegated, UID: user, Must: []string{"TestRealGroup", "TestMakesWay"}},
		{Name: "cgroup/session", Package: cgroups, Group: session, UID: user},
		{Name: "limits/root", Package: container, Args: limits, Group: service, Must: enforced},
		{Name: "limits/delegated", Package: container, Args: limits, Group: delegated, UID: user, Must: enforced},
		{Name: "limits/session", Package: container, Args: limits, Group: session, UID: user, Must: []string{"TestProbe"}},
		{Name: "conformance/root", Package: conformance, Args: suite, Group: service, Must: conform},
		{Name: "conformance/delegated", Package: conformance, Args: suite, Group: delegated, UID: user, Must: conform},
		{Name: "conformance/session", Package: conformance, Args: suite, Group: session, UID: user, Must: []string{"TestContainer/started/limit/memory"}},
		{Name: "short/root", Package: conformance, Args: short, Group: service, Must: conform, Named: true},
		{Name: "short/delegated", Package: conformance, Args: short, Group: delegated, UID: user, Must: conform, Named: true},
		{Name: "attack/root", Package: attack, Args: attacks, Group: service, Must: []string{"TestBombs/memory/user", "TestBombs/memory_files/user", "TestBombs/memory/root"}},
		{Name: "attack/delegated", Package: attack, Args: attacks, Group: delegated, UID: user, Must: []string{"TestBombs/memory/user", "TestBombs/memory_files/user"}},
		{Name: "attack/session", Package: attack, Args: attacks, Group: session, UID: user, Must: []string{"TestBombs/disk/user"}},
		{Name: "systemd/scope", Package: cgroups, Group: systemdScope, UID: user, Must: []string{"TestRealGroup", "TestMakesWay"}},
		{Name: "limits/scope", Package: container, Args: limits, Group: systemdScope, UID: user, Must: enforced},
		{Name: "systemd/program", Package: story, Args: []string{"-test.run", "^TestDelegatedGroup$"}, Group: systemdScope, UID: user, Must: []string{"TestDelegatedGroup"}},
		{Name: "systemd/service", Package: cgroups, Group: systemdService, UID: user, Must: []string{"TestRealGroup", "TestMakesWay"}},
		{Name: "systemd/login", Package: container, Args: []string{"-test.run", "^TestProbe$"}, Group: systemdPlain, UID: user, Must: []string{"TestProbe"}},
		{Name: "nfs", Package: shared, Args: []string{"-test.run", "^TestNFS$"}, Group: service, Must: []string{"TestNFS"}},
		{Name: "userns", Package: story, Args: []string{"-test.run", "^TestUserNamespacesForRootOnly$"}, Group: service, Must: []string{"TestUserNamespacesForRootOnly"}},
	}
}
