// Package e2b runs the unmodified E2B SDKs of npm against Hortus, by E2B_API_KEY,
// E2B_API_URL and E2B_SANDBOX_URL alone, once for each version of the SDK and each
// isolation, and keeps the table of what works in docs/e2b.md true.
//
// What is tried is one script for each feature below features/. A script exports
// name, what the table calls it, and run(t), which throws when something is not as it
// should be, and gives {refused: OPTION} where Hortus must refuse it by that name and
// did. t has Sandbox and the whole SDK, the version and isolation, create(), which
// makes a sandbox that is killed after the script, and what else run.mjs says.
//
// The SDKs are not in the tree: package-lock.json says which they are, byte for byte.
// HORTUS_E2B names a directory in which "npm ci" was run with it; without that, the
// one that .ci/run makes in the user's cache is looked for. Where there is none, or no
// node, the tests skip with the reason.
package e2b
