package inventory

import "hortus.dev/api"

// tool is a program, how it is requested its version, and the Debian package
// that brings it.
type tool struct {
	name string
	ask  string // shell words; its output holds the version
	deb  string
}

var tools = []tool{
	{"bash", "bash --version", "bash"},
	{"python3", "python3 --version", "python3"},
	{"node", "node --version", "nodejs"},
	{"go", "go version", "golang-go"},
	{"gcc", "gcc --version", "gcc"},
	{"g++", "g++ --version", "g++"},
	{"make", "make --version", "make"},
	{"git", "git --version", "git"},
	{"cargo", "cargo --version", "cargo"},
	{"rustc", "rustc --version", "rustc"},
	{"java", "java -version", "default-jdk-headless"},
	{"ruby", "ruby --version", "ruby"},
	{"javac", "", "default-jdk-headless"},
	{"perl", "perl -e 'print $^V'", "perl"},
	{"php", "php --version", "php-cli"},
	{"curl", "curl --version", "curl"},
	{"jq", "jq --version", "jq"},
	// These two take longer to start than what they say is worth: Python and
	// Node tell their versions among the libraries.
	{"pip3", "", "python3-pip"},
	{"npm", "", "npm"},
	{"tsc", "", "node-typescript"},
}

// common are the libraries that people ask for, listed also where they are
// missing.
var common = []struct {
	language api.Language
	name     string
	deb      string
}{
	{api.Python, "numpy", "python3-numpy"},
	{api.Python, "pandas", "python3-pandas"},
	{api.Python, "matplotlib", "python3-matplotlib"},
	{api.Python, "scipy", "python3-scipy"},
	{api.Python, "pytest", "python3-pytest"},
	{api.Python, "requests", "python3-requests"},
	{api.JavaScript, "typescript", "node-typescript"},
}

// twins are commands that a library brings: what it says of its version holds
// for them.
var twins = map[string]struct {
	language api.Language
	library  string
}{
	"pip3": {api.Python, "pip"},
	"npm":  {api.JavaScript, "npm"},
	"tsc":  {api.JavaScript, "typescript"},
}
