# cmake -DSOURCE=FOLDER -DOUT=FILE.h -P DtcCommit.cmake: defines DTC_COMMIT as the commit that is checked out, with
# "-modified" if tracked files differ from it; empty outside of a clone. Writes the file only if it changes.
set(commit "")
execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE
                ERROR_QUIET RESULT_VARIABLE failed)
if(NOT failed AND EXISTS "${SOURCE}/.git")
  set(commit "${head}")
  execute_process(COMMAND git -C "${SOURCE}" diff --quiet HEAD RESULT_VARIABLE modified ERROR_QUIET)
  if(modified)
    string(APPEND commit "-modified")
  endif()
endif()
file(CONFIGURE OUTPUT "${OUT}" CONTENT "#pragma once\n// Written by cmake/DtcCommit.cmake.\n#define DTC_COMMIT \"${commit}\"\n")
