# need.bash - install what is missing, and nothing else; sourced by quickstart and check.
#
# need WHAT=PACKAGE...   WHAT is a command, a header ("zlib.h"), py:MODULE of /usr/bin/python3,
#                        san:COMPILER (its sanitizer and fuzzer runtimes), or a file's path.
#                        `?WHAT=PACKAGE` is wanted, but done without where the distribution does
#                        not have it.

need_is_there()
{
	case $1 in
	py:*) /usr/bin/python3 -c "import ${1#py:}" ;;
	san:*) echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
		"${1#san:}" -fsanitize=fuzzer,address,undefined -x c - -o /dev/null ;;
	/*) [ -e "$1" ] ;;
	*.h) [ -e "/usr/include/$1" ] || echo "#include <$1>" | "${CC:-cc}" -E - ;;
	*) command -v "$1" ;;
	esac >/dev/null 2>&1
}

# Print "package..." of what is not there; the arguments are need's, of one kind.
need_missing()
{
	local item packages=()

	for item; do
		need_is_there "${item%%=*}" || packages+=("${item#*=}")
	done
	[ ${#packages[@]} = 0 ] || printf '%s\n' "${packages[@]}" | sort -u | paste -sd' '
}

need_fail()
{
	echo "${0##*/}: $*" >&2
	exit 2
}

# Install $1 (must) and $2 (where there is a candidate), both lists in one string.
need_install()
{
	local root=() wanted=() package

	command -v apt-get >/dev/null ||
		need_fail "missing: $1 (Debian's names), and there is no apt-get here: install them by hand"
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null ||
			need_fail "missing: $1: be root, install sudo, or have root run: apt-get install $1"
		root=(sudo)
	fi
	"${root[@]}" apt-get update -qq
	for package in $2; do
		if apt-cache show "$package" >/dev/null 2>&1; then
			wanted+=("$package")
		else
			echo "${0##*/}: no package $package here: going on without"
		fi
	done
	# shellcheck disable=SC2086 # lists of words
	set -- $1 "${wanted[@]}"
	[ $# = 0 ] && return
	echo "${0##*/}: installing with apt-get: $*"
	"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends "$@" \
		2> >(grep -v '^debconf: ' >&2) >/dev/null
}

need()
{
	local item must=() maybe=() missing optional

	for item; do
		case $item in
		\?*) maybe+=("${item#\?}") ;;
		*) must+=("$item") ;;
		esac
	done
	missing=$(need_missing "${must[@]}")
	optional=$(need_missing "${maybe[@]}")
	if [ -n "$missing" ]; then
		need_install "$missing" "$optional"
	elif [ -n "$optional" ]; then
		# Without root what is only wanted is done without.
		(need_install "$missing" "$optional") || true
	else
		echo "${0##*/}: everything needed is installed already"
	fi
	missing=$(need_missing "${must[@]}")
	[ -z "$missing" ] || need_fail "still missing after the installation: $missing"
}
