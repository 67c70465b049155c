package birth

// RunDir holds the files from which programs learn in which sandbox they run, as in E2B's
// sandboxes.
const RunDir = "/run/e2b"

// ViewDir is a read-only mount of /workspace, in sandboxes that have one. What is changed at
// /workspace is seen there.
const ViewDir = "/run/hortus-workspace"

// RunFiles returns the files of RunDir. They do not end in a line break.
func RunFiles(sandbox, template string) []File {
	return []File{
		{Path: RunDir + "/.E2B_SANDBOX", Data: "true"},
		{Path: RunDir + "/.E2B_SANDBOX_ID", Data: sandbox},
		{Path: RunDir + "/.E2B_TEMPLATE_ID", Data: template},
	}
}
