# find_package(dtc) in a wheel, which has one name of each library: the target dtc::dtc, the C API of docs/c-api.md.
get_filename_component(dtc_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET dtc::dtc)
  add_library(dtc::dtc SHARED IMPORTED)
  file(GLOB dtc_library "${dtc_prefix}/lib/libdtc.so.*")
  get_filename_component(dtc_soname "${dtc_library}" NAME)
  set_target_properties(dtc::dtc PROPERTIES IMPORTED_LOCATION "${dtc_library}" IMPORTED_SONAME "${dtc_soname}"
                        INTERFACE_INCLUDE_DIRECTORIES "${dtc_prefix}/include")
endif()
