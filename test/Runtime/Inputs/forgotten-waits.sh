# forgotten-waits.sh FOLDER COMMAND...: the command with one wait of a stream left out, and whether its result shows it.
# The waits are those that nobody else makes by the way: the first device that is waited for has the others do what it needs.
folder=$1
shift
"$@" --output y="$folder/right.npy" >/dev/null 2>&1 || exit 1
for wait in 2 3 6 7; do
  DTC_STUB_FORGET=$wait "$@" --output y="$folder/y.npy" >/dev/null 2>&1 && cmp -s "$folder/right.npy" "$folder/y.npy"
  [ $? = 0 ] && echo "wait $wait: nobody misses it" || echo "wait $wait: missed"
done
