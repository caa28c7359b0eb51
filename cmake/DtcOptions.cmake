# Flags for every target, and the build options.

option(DTC_WERROR "Treat warnings as errors" ON)
option(DTC_CLANG_TIDY "Run clang-tidy (.clang-tidy) with the compiler" OFF)
option(DTC_UNITY "Compile several sources of a folder as one translation unit" ON)
option(DTC_PRECOMPILED "Parse the most included headers once, as a precompiled header" ON)
option(DTC_TESTS "Build the unit tests" ON)
option(DTC_FUZZ "Build the libFuzzer targets of test/fuzz (Clang only)" OFF)
set(DTC_SANITIZE "" CACHE STRING "Sanitizers for every target, as in -fsanitize= (address,undefined or thread)")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # the plugins link the static libraries too
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin") # plugins are next to the binary

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# Two thirds of the time of a build are the optimizer's, and it spends most of that on inlining templates of the standard
# library: it is told not to where speed matters less.
set(DTC_LITTLE_INLINING)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(DTC_LITTLE_INLINING "-mllvm -inline-threshold=5")
endif()
# For what runs once per command rather than once per op, step or element.
set(DTC_SELDOM_RUN)
if(DTC_LITTLE_INLINING)
  set(DTC_SELDOM_RUN "$<$<CONFIG:Release>:SHELL:-O1 ${DTC_LITTLE_INLINING}>")
endif()
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1") # fast to build; backtraces have line numbers
if(DTC_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1") # several times faster to test than -O0
  add_compile_options("$<$<CONFIG:Debug>:SHELL:${DTC_LITTLE_INLINING}>")
endif()

add_compile_options(
  -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi -Wimplicit-fallthrough
  -Wno-missing-field-initializers # op records initialize only the fields that they set
  -ffp-contract=off # the reference evaluator is the same for every compiler
  -ffunction-sections -fdata-sections)
if(DTC_WERROR)
  add_compile_options(-Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-Wnewline-eof -Wunused-template -Wstring-conversion -fcolor-diagnostics)
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp") # for ccache
endif()

if(DTC_SANITIZE)
  add_compile_options(-fsanitize=${DTC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${DTC_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # It expects a signature before each function called by pointer, which JIT-compiled kernels lack.
    add_compile_options(-fno-sanitize=function)
  endif()
endif()

add_link_options($<$<CONFIG:Release>:-Wl,--gc-sections>)
find_program(DTC_LLD NAMES ld.lld-19 ld.lld-18 ld.lld)
if(DTC_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_link_options(--ld-path=${DTC_LLD})
endif()

find_program(DTC_CCACHE ccache)
if(DTC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths are relative, so that a second clone of the tree hits the first one's cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${DTC_CCACHE})
endif()

if(DTC_CLANG_TIDY)
  find_program(DTC_CLANG_TIDY_EXECUTABLE NAMES clang-tidy-19 clang-tidy-18 clang-tidy REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${DTC_CLANG_TIDY_EXECUTABLE} --quiet)
endif()
