# complete.sh SCRIPT [WRAPPER...] .../dtc WORD...: what the completion SCRIPT offers for the last WORD, one per line
source "$1"
shift
while [ "${1##*/}" != dtc ]; do shift; done
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_dtc
printf '%s\n' "${COMPREPLY[@]}"
