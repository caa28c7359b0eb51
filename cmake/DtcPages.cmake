# cmake -DDTC=BINARY -DOUT=FOLDER -P DtcPages.cmake: writes the manual pages and completion scripts that BINARY prints,
# laid out as below share/. OUT/done is written last.
function(write file)
  execute_process(COMMAND "${DTC}" ${ARGN} OUTPUT_FILE "${file}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(MAKE_DIRECTORY "${OUT}/man/man1" "${OUT}/bash-completion/completions" "${OUT}/zsh/site-functions"
     "${OUT}/fish/vendor_completions.d")
write("${OUT}/man/man1/dtc-compiler.1" completion man)
execute_process(COMMAND "${DTC}" --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE ".*\nverbs:\n(.*)\n\nflags:.*" "\\1" verbs "${help}")
# Not with ^, which also matches after each match: at the two spaces between a verb and its description.
string(REGEX MATCHALL "\n  [a-z]+" verbs "\n${verbs}")
foreach(verb IN LISTS verbs)
  string(STRIP "${verb}" verb)
  write("${OUT}/man/man1/dtc-${verb}.1" completion man ${verb})
endforeach()
write("${OUT}/bash-completion/completions/dtc" completion bash)
write("${OUT}/zsh/site-functions/_dtc" completion zsh)
write("${OUT}/fish/vendor_completions.d/dtc.fish" completion fish)
file(WRITE "${OUT}/done" "")
