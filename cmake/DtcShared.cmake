# libdtc.so and libdtc_runtime.so: the C API over the static floors, and what others need to find it.
include(CMakePackageConfigHelpers)

file(STRINGS "${CMAKE_SOURCE_DIR}/include/dtc/dtc.h" line REGEX "^#define DTC_ABI_VERSION ")
string(REGEX MATCH "[0-9]+" DTC_ABI_VERSION "${line}")

# dtc_shared(NAME FILE LIBRARIES...): lib/Api/C over these libraries. FILE.map has the exported functions; what they do
# not reach is dropped.
function(dtc_shared name file)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/Api/C/*.cpp")
  add_library(${name} SHARED ${sources})
  dtc_unity(${name} "${sources}")
  dtc_precompiled(${name})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/lib/Api/C"
                             INTERFACE "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:include>")
  target_link_libraries(${name} PRIVATE ${ARGN} Threads::Threads ${CMAKE_DL_LIBS})
  set(map "${CMAKE_SOURCE_DIR}/cmake/${file}.map")
  target_link_options(${name} PRIVATE "LINKER:--version-script=${map}" "LINKER:--gc-sections")
  set_target_properties(${name} PROPERTIES OUTPUT_NAME ${file} EXPORT_NAME ${file} VERSION ${PROJECT_VERSION}
                        SOVERSION ${DTC_ABI_VERSION} LINK_DEPENDS "${map}")
  install(TARGETS ${name} EXPORT dtcTargets LIBRARY DESTINATION lib COMPONENT dtc NAMELINK_COMPONENT dtc)
endfunction()

dtc_shared(libdtc dtc dtcDriver dtcAll)
file(GLOB command CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tools/dtc/library/*.cpp")
target_sources(libdtc PRIVATE ${command})
get_property(modules GLOBAL PROPERTY DTC_MODULES)
if(modules)
  add_dependencies(libdtc ${modules}) # opened by path
endif()
# Without the compiler: programs come from packages.
dtc_shared(libdtc-runtime dtc_runtime dtcAll)

# The folders are those of pluginFolders() and of dtc.pc.
install(FILES include/dtc/dtc.h include/dtc/dlpack.h DESTINATION include/dtc COMPONENT dtc)
install(EXPORT dtcTargets NAMESPACE dtc:: DESTINATION lib/cmake/dtc COMPONENT dtc)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/dtcConfigVersion.cmake" COMPATIBILITY SameMajorVersion)
configure_file(cmake/dtcConfig.cmake.in "${CMAKE_BINARY_DIR}/dtcConfig.cmake" @ONLY)
configure_file(cmake/dtc.pc.in "${CMAKE_BINARY_DIR}/dtc.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/dtcConfig.cmake" "${CMAKE_BINARY_DIR}/dtcConfigVersion.cmake"
        DESTINATION lib/cmake/dtc COMPONENT dtc)
install(FILES "${CMAKE_BINARY_DIR}/dtc.pc" DESTINATION lib/pkgconfig COMPONENT dtc)
