shopt -s lastpipe
__hortus_code=$(cat; printf x) __hortus_file=${HOME:-/tmp}/.hortus-env __hortus_path=$PATH
__hortus_code=${__hortus_code%x}
declare -A __hortus_base
env -0 | while IFS= read -r -d '' __hortus_v; do __hortus_base["${__hortus_v%%=*}"]=${__hortus_v#*=}; done
if [ -r "$__hortus_file" ]; then
  while IFS= read -r -d '' __hortus_v; do
    case $__hortus_v in
    *=*) export "$__hortus_v" ;;
    *) unset -v "$__hortus_v" ;;
    esac
  done <"$__hortus_file" 2>/dev/null
fi
__hortus_keep() {
  local status=$? k v part=$__hortus_file.$$
  local -A now
  set +euCfvx
  shopt -s lastpipe
  PATH=$__hortus_path command env -0 | while IFS= read -r -d '' v; do now["${v%%=*}"]=${v#*=}; done
  # What the lookup above needed is not what the code left.
  if [[ ${PATH@a} == *x* ]]; then now[PATH]=$PATH; else unset 'now[PATH]'; fi
  {
    for k in "${!now[@]}"; do
      case $k in PWD | OLDPWD | SHLVL | _ | __hortus_* | *[!A-Za-z0-9_]*) continue ;; esac
      [ "${__hortus_base["$k"]+x}" ] && [ "${__hortus_base["$k"]}" = "${now["$k"]}" ] || printf '%s=%s\0' "$k" "${now["$k"]}"
    done
    for k in "${!__hortus_base[@]}"; do
      case $k in PWD | OLDPWD | SHLVL | _ | *[!A-Za-z0-9_]*) continue ;; esac
      [ "${now["$k"]+x}" ] || printf '%s\0' "$k"
    done
  } 2>/dev/null >"$part" && PATH=$__hortus_path command mv -f "$part" "$__hortus_file" || echo "hortus: the environment is not kept" >&2
  exit "$status"
}
trap __hortus_keep EXIT
exec </dev/null
eval "$__hortus_code"
