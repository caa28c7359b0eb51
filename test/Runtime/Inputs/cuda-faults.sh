# cuda-faults.sh FOLDER COMMAND...: the command with one fault after the other, and how each ends.
folder=$1
shift
for fault in alloc:1 alloc:2 alloc:4 alloc:99 launch:1 launch:2 launch:3 launch:5 copy:1 copy:3 copy:5 nccl:1 nccl:2 nccl:3; do
  rm -f "$folder"/*
  DTC_STUB_FAIL=$fault "$@" --output y="$folder/y.npy" >"$folder.out" 2>&1
  code=$?
  [ $code = 0 ] || [ -z "$(ls "$folder")" ] || echo "a file is left: $(ls "$folder")"
  echo "$fault: exit $code, $(grep -m1 error "$folder.out")" | sed 's/:/ /'
done
