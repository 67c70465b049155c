# Runs the code of one context of bash: its text comes on descriptor 3, up to a zero byte, and
# a line on descriptor 4 ends each.
trap : INT
while IFS= read -r -d '' mark <&3 && IFS= read -r -d '' code <&3; do
  eval "$code" </dev/null 3<&- 4>&-
  code=$?
  printf '\0%s\0' "$mark"
  printf '\0%s\0' "$mark" >&2
  printf '%d\n' "$code" >&4
done
