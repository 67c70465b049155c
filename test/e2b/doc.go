// Package e2b runs the unmodified E2B SDKs from npm against Hortus, configured only by
// E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL and E2B_VOLUME_API_URL, once for each version of the SDK and each
// isolation. It checks the table of supported features in docs/e2b.md.
//
// Each feature has a script below features/. A script exports name, its name in the
// table, and run(t), which throws on failure, and returns {refused: OPTION} if Hortus
// must refuse that option and did. t has Sandbox and the whole SDK, the version and
// isolation, create(), which makes a sandbox that is killed after the script, and the
// other fields that run.mjs documents.
//
// The SDKs are not in the tree: package-lock.json pins their versions and checksums.
// HORTUS_E2B names a directory in which "npm ci" was run with it. If it is not set, the
// directory that .ci/run makes in the user's cache is used. If there is none, or node is
// missing, the tests are skipped with the reason.
package e2b
