package attack

// onMachines are the attacks that are made on virtual machines, in the soak tier: those on what separates a machine from the host and
// from other machines, and on its layers and its guest. The others end at the guest, which is that of gVisor.
var onMachines = map[string]bool{
	"TestEscapes": true, "TestSetuidFile": true, "TestHostSockets": true, "TestPathsOfTheHost": true, "TestNeighboursAreNotSeen": true,
	"TestLayersStay": true, "TestInside": true, "TestRootRegainsNothing": true,
}
