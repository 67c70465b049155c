package api

// Preset names a template that comes with Hortus.
type Preset string

const (
	PresetBrowser Preset = "browser" // a Chromium whose debugging port is BrowserPort
	PresetIDE     Preset = "ide"     // an editor with a terminal, code-server, at IDEPort
)

// Presets lists all of them.
func Presets() []Preset { return []Preset{PresetBrowser, PresetIDE} }

// IDEPort is the port inside a sandbox at which the editor of PresetIDE listens.
const IDEPort = 13337

// CheckIDEPort validates the port at which an editor listens; 0 is none.
func CheckIDEPort(port int) error {
	if port < 0 || port > 65535 {
		return Errorf(KindInvalid, "%d is not a port at which an editor can listen", port).WithHint("use a number from 1 to 65535, or leave idePort out")
	}
	return nil
}
