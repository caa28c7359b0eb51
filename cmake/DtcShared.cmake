# libdtc.so: the C API over the static floors, and what others need to find it.
include(CMakePackageConfigHelpers)

file(STRINGS "${CMAKE_SOURCE_DIR}/include/dtc/dtc.h" line REGEX "^#define DTC_ABI_VERSION ")
string(REGEX MATCH "[0-9]+" DTC_ABI_VERSION "${line}")

file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/Api/C/*.cpp" "${CMAKE_SOURCE_DIR}/tools/dtc/library/*.cpp")
add_library(libdtc SHARED ${sources})
dtc_unity(libdtc "${sources}")
dtc_precompiled(libdtc)
target_include_directories(libdtc PRIVATE "${CMAKE_SOURCE_DIR}/lib/Api/C"
                           INTERFACE "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:include>")
target_link_libraries(libdtc PRIVATE dtcDriver dtcAll Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(libdtc PRIVATE "LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/dtc.map")
set_target_properties(libdtc PROPERTIES OUTPUT_NAME dtc EXPORT_NAME dtc VERSION ${PROJECT_VERSION}
                      SOVERSION ${DTC_ABI_VERSION} LINK_DEPENDS "${CMAKE_SOURCE_DIR}/cmake/dtc.map")
get_property(modules GLOBAL PROPERTY DTC_MODULES)
if(modules)
  add_dependencies(libdtc ${modules}) # opened by path
endif()

# The folders are those of pluginFolders() and of dtc.pc.
install(TARGETS libdtc EXPORT dtcTargets LIBRARY DESTINATION lib COMPONENT dtc NAMELINK_COMPONENT dtc)
install(FILES include/dtc/dtc.h include/dtc/dlpack.h DESTINATION include/dtc COMPONENT dtc)
install(EXPORT dtcTargets NAMESPACE dtc:: DESTINATION lib/cmake/dtc COMPONENT dtc)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/dtcConfigVersion.cmake" COMPATIBILITY SameMajorVersion)
configure_file(cmake/dtcConfig.cmake.in "${CMAKE_BINARY_DIR}/dtcConfig.cmake" @ONLY)
configure_file(cmake/dtc.pc.in "${CMAKE_BINARY_DIR}/dtc.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/dtcConfig.cmake" "${CMAKE_BINARY_DIR}/dtcConfigVersion.cmake"
        DESTINATION lib/cmake/dtc COMPONENT dtc)
install(FILES "${CMAKE_BINARY_DIR}/dtc.pc" DESTINATION lib/pkgconfig COMPONENT dtc)
