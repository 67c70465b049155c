package birth

// RunDir is where programs find which sandbox they are in, as in those of E2B.
const RunDir = "/run/e2b"

// RunFiles are the files of RunDir. They have no line end.
func RunFiles(sandbox, template string) []File {
	return []File{
		{Path: RunDir + "/.E2B_SANDBOX", Data: "true"},
		{Path: RunDir + "/.E2B_SANDBOX_ID", Data: sandbox},
		{Path: RunDir + "/.E2B_TEMPLATE_ID", Data: template},
	}
}
