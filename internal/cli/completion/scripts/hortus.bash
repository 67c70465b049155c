# Completion of hortus for bash. Made by "hortus completion bash"; where it was
# installed by it, "hortus uninstall" removes it.
_hortus() {
	local cur='' i line found
	local -a words=()
	for ((i = 1; i <= COMP_CWORD; i++)); do
		# bash takes --flag=value for three words.
		if [[ ${COMP_WORDS[i]} == = ]]; then
			((i < COMP_CWORD)) || words+=('')
		else
			words+=("${COMP_WORDS[i]}")
		fi
	done
	((${#words[@]})) && cur=${words[${#words[@]} - 1]}
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		:files | :dirs)
			compopt -o filenames 2>/dev/null
			while IFS= read -r found; do COMPREPLY+=("$found"); done < <(
				if [[ $line == :dirs ]]; then compgen -d -- "$cur"; else compgen -f -- "$cur"; fi
			)
			;;
		:nospace) compopt -o nospace 2>/dev/null ;;
		?*) COMPREPLY+=("${line%%$'\t'*}") ;;
		esac
	done < <("${COMP_WORDS[0]/#\~/$HOME}" __complete -- "${words[@]}" 2>/dev/null)
}
complete -F _hortus hortus
