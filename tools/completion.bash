	esac
	# Where the program of `pfw run` begins; `--output=t` is three words to bash.
	for ((i++; runs && i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--) program=$((i + 1)); break ;;
		-*) _pfw_values "${COMP_WORDS[i]}" && [[ ${COMP_WORDS[++i]} == = ]] && ((i++)) ;;
		*) program=$i; break ;;
		esac
	done
	if [[ $program ]] && ((program < COMP_CWORD)); then
		if declare -F _command_offset >/dev/null; then _command_offset $program; return; fi
		what=files words= options=
	elif [[ ! $program ]] && _pfw_values "$before"; then
		what= words=$values options=
		case $values in @files) what=files words= ;; @any) return ;; esac
		if [[ $list && $word == *,* ]]; then begin=${word%,*},; fi
	elif [[ $word == -* ]]; then
		what= words=$options
	fi
	case $what in *traces* | *files* | *programs*) compopt -o filenames ;; esac
	mapfile -t COMPREPLY < <(
		compgen -P "$begin" -W "$words" -- "${word#"$begin"}"
		case $what in *programs*) compgen -A command -- "$word" ;; esac
		case $what in *files* | *programs*) compgen -f -- "$word" ;; esac
		case $what in *pids*) cd /proc; compgen -W "$(echo [0-9]*)" -- "$word" ;; esac
	)
	if [[ $what == *traces* ]]; then
		mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(
			compgen -d -- "$word"
			for i in pfw pfw.gz partial; do compgen -f -X "!*.$i" -- "$word"; done)
	fi
} 2>/dev/null
complete -F _pfw pfw
