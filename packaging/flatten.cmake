# Makes a wheel's folder of an installed one: cmake -DROOT=FOLDER -P flatten.cmake
# Wheels have no symbolic links: a shared library keeps the one name by which programs open it, libx.so.2 of libx.so,
# libx.so.2 and libx.so.2.6. Files by which C programs find libdtc.so name that one. The other library is left out.
file(GLOB runtime "${ROOT}/lib/libdtc_runtime*")
if(runtime)
  file(REMOVE ${runtime})
endif()
file(GLOB links "${ROOT}/lib/*.so*" "${ROOT}/lib/dtc/*.so*")
foreach(link IN LISTS links)
  if(IS_SYMLINK "${link}" AND link MATCHES "\\.so\\.[0-9]+$")
    file(REAL_PATH "${link}" target)
    file(REMOVE "${link}")
    file(RENAME "${target}" "${link}")
  endif()
endforeach()
foreach(link IN LISTS links)
  if(IS_SYMLINK "${link}")
    file(REMOVE "${link}")
  endif()
endforeach()

file(GLOB library RELATIVE "${ROOT}/lib" "${ROOT}/lib/libdtc.so.*")
set(pc "${ROOT}/lib/pkgconfig/dtc.pc")
file(READ "${pc}" text)
string(REPLACE "-L\${libdir} -ldtc" "\${libdir}/${library} -Wl,-rpath,\${libdir}" text "${text}")
file(WRITE "${pc}" "${text}")
file(GLOB targets "${ROOT}/lib/cmake/dtc/dtcTargets*.cmake")
file(REMOVE ${targets})
# file(COPY) would omit a file with the same time stamp as the one that it replaces.
file(COPY_FILE "${CMAKE_CURRENT_LIST_DIR}/dtcConfig.cmake" "${ROOT}/lib/cmake/dtc/dtcConfig.cmake")
# Pages for developers of dtc, who have a clone.
set(docs "${ROOT}/share/doc/dtc/docs")
file(REMOVE_RECURSE "${docs}/internals" "${docs}/decisions.md" "${docs}/developing.md" "${docs}/adding-an-op.md")
