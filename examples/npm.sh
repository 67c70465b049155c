#!/bin/sh
# Install and test an npm project in a clean sandbox that reaches the npm registry and
# nothing else.
#
#     sh examples/npm.sh
set -eu

project=$(mktemp -d)
trap 'rm -rf "$project"' EXIT
cat >"$project/package.json" <<'END'
{
  "name": "parity",
  "version": "1.0.0",
  "scripts": { "test": "node --test" },
  "dependencies": { "is-odd": "3.0.1" }
}
END
cat >"$project/parity.test.js" <<'END'
const test = require("node:test");
const assert = require("node:assert");
const isOdd = require("is-odd");

test("odd", () => assert.ok(isOdd(3)));
test("even", () => assert.ok(!isOdd(4)));
END

sandbox=$(hortus sandbox create --quiet --ttl 10m --memory 2G --egress npm)
trap 'rm -rf "$project"; hortus sandbox kill --quiet "$sandbox"' EXIT
hortus sandbox cp --quiet "$project" "$sandbox:/workspace/parity"

inside() { hortus sandbox exec --quiet --workdir /workspace/parity "$sandbox" -- sh -c "$1"; }
inside 'npm install --no-audit --no-fund --no-update-notifier --loglevel=error >/dev/null && ls node_modules | tr "\n" " "'
echo
inside 'npm test 2>&1 | grep -o "pass [0-9]*"'

# Everything else is denied at once, and recorded.
inside 'node -e "require(\"dns\").lookup(\"example.org\", e => console.log(e.code))"'
hortus egress log --json --sandbox "$sandbox" --result denied | grep -o '"host":"example.org"' | head -n 1
