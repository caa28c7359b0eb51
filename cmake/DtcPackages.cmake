# What packages need besides what a build installs; scripts/package.sh makes them. Install components:
#   command         the program dtc
#   dtc             the libraries, plugins, headers, manual pages
#   documentation   docs/ and examples/
#   system          the plugin dtc-jit-clang, linked with the system's LLVM and Clang
#   self_contained  the same plugin with LLVM and Clang within it, and copies of the shared libraries that dtc and its
#                   plugins need: for the wheel and the tarball; not part of a plain `cmake --install`

# Debian's /usr/bin/dtc is the compiler of device trees. The package's command is dtc-compiler, and dtc where that name
# is free (packaging/deb/postinst).
set(CPACK_PACKAGE_NAME dtc-compiler)
set(CPACK_PACKAGE_VENDOR "the dtc authors")
set(CPACK_PACKAGE_CONTACT "the dtc authors <dtc@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler for tensor programs on device meshes")
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_COMPONENTS_ALL command dtc documentation system)
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_SOURCE_DIR}/packaging/components.cmake")
set(CPACK_PACKAGE_FILE_NAME "dtc-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "liblapack3, libopenblas0")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CMAKE_SOURCE_DIR}/packaging/deb/postinst;${CMAKE_SOURCE_DIR}/packaging/deb/prerm")
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_SOURCE_DIR}/packaging/deb/rename.cmake")
include(CPack)

# LLVM and Clang as static archives, X86 only: 82 MB (29 MB compressed) instead of the 200 MB of the two shared
# libraries and 56 MB of what these need.
find_program(DTC_LLVM_CONFIG NAMES llvm-config PATHS "${DTC_LLVM_PREFIX}/bin" NO_DEFAULT_PATH)
find_library(DTC_ZSTD_STATIC NAMES libzstd.a)
find_library(DTC_ZLIB_STATIC NAMES libz.a)
if(NOT TARGET dtc-jit-clang OR NOT DTC_LLVM_CONFIG OR NOT DTC_ZSTD_STATIC OR NOT DTC_ZLIB_STATIC
   OR NOT EXISTS "${DTC_LLVM_PREFIX}/lib/libclangCodeGen.a")
  return() # scripts/package.sh says what is missing
endif()
# The components that Clang's code generation refers to, besides the X86 target and the passes.
set(components x86 passes coverage frontendopenmp frontendhlsl frontenddriver frontendoffloading lto option targetparser
    windowsdriver irreader bitwriter linker instrumentation ipo hipstdpar objcarcopts)
execute_process(COMMAND "${DTC_LLVM_CONFIG}" --link-static --libs ${components} OUTPUT_VARIABLE llvmLibraries
                OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed)
  return()
endif()
separate_arguments(llvmLibraries UNIX_COMMAND "${llvmLibraries}")
list(REMOVE_ITEM llvmLibraries -lPolly -lPollyISL) # StaticLlvm.cpp
set(clangLibraries CodeGen Frontend Driver Parse Serialization Sema APINotes Analysis ASTMatchers Edit AST Lex Support
    Basic)
list(TRANSFORM clangLibraries PREPEND "${DTC_LLVM_PREFIX}/lib/libclang")
list(TRANSFORM clangLibraries APPEND .a)

get_target_property(sources dtc-jit-clang SOURCES)
add_library(dtc-jit-clang-static MODULE EXCLUDE_FROM_ALL ${sources} lib/Jit/Clang/static/StaticLlvm.cpp)
dtc_unity(dtc-jit-clang-static "${sources}")
set_target_properties(dtc-jit-clang-static PROPERTIES PREFIX "" OUTPUT_NAME dtc-jit-clang
                      LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/self-contained")
target_compile_options(dtc-jit-clang-static PRIVATE ${DTC_SELDOM_RUN})
target_compile_definitions(dtc-jit-clang-static PRIVATE $<TARGET_PROPERTY:dtcClang,INTERFACE_COMPILE_DEFINITIONS>)
target_include_directories(dtc-jit-clang-static SYSTEM PRIVATE "${DTC_LLVM_INCLUDE}")
target_include_directories(dtc-jit-clang-static PRIVATE "${CMAKE_SOURCE_DIR}/include" "${CMAKE_BINARY_DIR}/include"
                           "${CMAKE_SOURCE_DIR}/lib/Jit/Clang")
target_link_options(dtc-jit-clang-static PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs -Wl,--icf=all -Wl,-O2 "-L${DTC_LLVM_PREFIX}/lib")
target_link_libraries(dtc-jit-clang-static PRIVATE dtcSupport Threads::Threads ${CMAKE_DL_LIBS}
                      -Wl,--start-group ${clangLibraries} -Wl,--end-group ${llvmLibraries} "${DTC_ZLIB_STATIC}"
                      "${DTC_ZSTD_STATIC}")

install(TARGETS dtc-jit-clang-static LIBRARY DESTINATION lib/dtc COMPONENT self_contained EXCLUDE_FROM_ALL)
# The libraries that every Linux has are left out: the C library and the compiler's own.
install(RUNTIME_DEPENDENCY_SET dtcBundled
        PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|gcc_s)\\." "^libstdc\\+\\+" "^libdtc" "^libLLVM" "^libclang"
        POST_EXCLUDE_REGEXES "/lib(c|m|dl|rt|pthread|gcc_s)\\.so" "/ld-linux" "/libstdc\\+\\+"
        LIBRARY DESTINATION lib/dtc COMPONENT self_contained EXCLUDE_FROM_ALL)
