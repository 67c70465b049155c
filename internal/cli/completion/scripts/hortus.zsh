#compdef hortus
# Completion of hortus for zsh. Made by "hortus completion zsh"; where it was
# installed by it, "hortus uninstall" removes it.
_hortus() {
	local line nospace
	local -a found
	for line in "${(@f)$(${(Q)words[1]} __complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
		case $line in
		:files) _files ;;
		:dirs) _files -/ ;;
		:nospace) nospace=1 ;;
		*$'\t'*) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
		?*) found+=("${line//:/\\:}") ;;
		esac
	done
	if (( $#found )); then
		if [[ -n $nospace ]]; then
			_describe -t values hortus found -S ''
		else
			_describe -t values hortus found
		fi
	fi
}
if [[ ${funcstack[1]} == _hortus ]]; then
	_hortus "$@"
else
	compdef _hortus hortus
fi
