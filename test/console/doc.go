// Package console tests the web console in a browser: Debian's chromium, driven by playwright-core, with a daemon and its sandboxes.
// One browser goes through all pages (console.mjs), one is attacked (attacks.mjs), one steers tasks (steer.mjs). They share harness.mjs.
// Attacks that need no browser are in test/daemon and in the packages of the servers.
//
// TestBuild wants the files that are embedded in the daemon to be those that the folder web builds to.
//
// TestPictures takes the pictures of README and docs/console.md (pictures.mjs).
//
// What the tests need of npm is installed as the lock files here and in web have it, in folders of the user's cache; .ci/run does it.
package console
