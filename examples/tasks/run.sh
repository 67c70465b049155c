#!/bin/sh
# A task on a repository, without a key, a network or another service: the agent of
# the built-in model repairs one defect, and the repository's own tests decide.
#
#     sh examples/tasks/run.sh python|javascript|go
set -eu
case ${1:-} in
python) tests="python3 -m unittest" needs=python3 ;;
javascript) tests="node --test" needs=node ;;
go) tests="go test ./..." needs=go ;;
*) echo "usage: run.sh python|javascript|go" >&2 && exit 2 ;;
esac
command -v "$needs" >/dev/null || { echo "this example needs $needs" >&2 && exit 2; }

# A repository of its own, so that the example can be run again.
here=$(cd "$(dirname "$0")" && pwd)
repo=$(mktemp -d)
trap 'rm -rf "$repo"' EXIT
cp -R "$here/$1/." "$repo"
cd "$repo"
git init -q
git config user.name "Ada Example"
git config user.email ada@example.org
git add -A
git commit -qm "Everything as it was found"
sh -c "$tests" >/dev/null 2>&1 && { echo "the tests pass already" >&2 && exit 1; }

# The answer is one line: the branch with the work, and its commit.
answer=$(hortus task --repo . --verify "$tests" "Fix the failing test")
branch=${answer%% *}
task=${branch#hortus/}

# What was changed; then into this checkout, which nothing else writes to.
hortus task diff "$task" | grep '^[-+][^-+]'
hortus task apply "$task" >&2
sh -c "$tests" >/dev/null 2>&1 && echo "the tests pass"
