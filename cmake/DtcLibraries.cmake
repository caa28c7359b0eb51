# Targets of the tree: a static library per floor, a shared module per plugin, and the external libraries that they
# use, each found or reported.

find_package(Threads REQUIRED)

# LLVM and Clang: used by the JIT's plugin only. Only the shared libraries are looked up, since their CMake packages
# require a dozen development packages that dtc does not need.
foreach(version 19 18)
  find_path(DTC_LLVM_INCLUDE NAMES llvm/ExecutionEngine/Orc/LLJIT.h PATHS /usr/lib/llvm-${version}/include
            NO_DEFAULT_PATH)
  if(DTC_LLVM_INCLUDE)
    get_filename_component(DTC_LLVM_PREFIX "${DTC_LLVM_INCLUDE}" DIRECTORY)
    find_library(DTC_LLVM_LIBRARY NAMES LLVM-${version} LLVM PATHS "${DTC_LLVM_PREFIX}/lib" NO_DEFAULT_PATH)
    find_library(DTC_CLANG_LIBRARY NAMES clang-cpp PATHS "${DTC_LLVM_PREFIX}/lib" NO_DEFAULT_PATH)
    set(DTC_LLVM_VERSION ${version})
    break()
  endif()
endforeach()
if(DTC_LLVM_LIBRARY AND DTC_CLANG_LIBRARY)
  add_library(dtcClang INTERFACE)
  target_include_directories(dtcClang SYSTEM INTERFACE "${DTC_LLVM_INCLUDE}")
  target_link_libraries(dtcClang INTERFACE "${DTC_CLANG_LIBRARY}" "${DTC_LLVM_LIBRARY}")
  target_compile_definitions(dtcClang INTERFACE DTC_LLVM_PREFIX="${DTC_LLVM_PREFIX}"
                             DTC_LLVM_VERSION=${DTC_LLVM_VERSION})
endif()

find_path(DTC_DNNL_INCLUDE NAMES oneapi/dnnl/dnnl.hpp)
find_library(DTC_DNNL_LIBRARY NAMES dnnl)
if(DTC_DNNL_INCLUDE AND DTC_DNNL_LIBRARY)
  add_library(dtcDnnl INTERFACE)
  target_include_directories(dtcDnnl SYSTEM INTERFACE "${DTC_DNNL_INCLUDE}")
  target_link_libraries(dtcDnnl INTERFACE "${DTC_DNNL_LIBRARY}")
endif()

# Graphviz (EPL 1.0): lays out the graphs of `dtc report`. Its layout plugins are in a folder of their own.
find_path(DTC_GRAPHVIZ_INCLUDE NAMES gvc.h PATH_SUFFIXES graphviz)
find_library(DTC_GVC_LIBRARY NAMES gvc)
find_library(DTC_CGRAPH_LIBRARY NAMES cgraph)
find_library(DTC_DOT_LIBRARY NAMES gvplugin_dot_layout PATH_SUFFIXES graphviz)
if(DTC_GRAPHVIZ_INCLUDE AND DTC_GVC_LIBRARY AND DTC_CGRAPH_LIBRARY AND DTC_DOT_LIBRARY)
  add_library(dtcGraphviz INTERFACE)
  target_include_directories(dtcGraphviz SYSTEM INTERFACE "${DTC_GRAPHVIZ_INCLUDE}")
  target_link_libraries(dtcGraphviz INTERFACE "${DTC_GVC_LIBRARY}" "${DTC_CGRAPH_LIBRARY}" "${DTC_DOT_LIBRARY}")
endif()

# MPI: messages between processes. Only its C interface is used, so its C++ library is not linked.
find_package(MPI QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND)
  add_library(dtcMpi INTERFACE)
  target_include_directories(dtcMpi SYSTEM INTERFACE ${MPI_CXX_INCLUDE_DIRS})
  target_link_libraries(dtcMpi INTERFACE "-Wl,--push-state,--as-needed" ${MPI_CXX_LIBRARIES} "-Wl,--pop-state")
endif()

# zlib: for compressed .npz files.
find_package(ZLIB)
if(NOT ZLIB_FOUND)
  message(FATAL_ERROR "zlib with its header was not found. scripts/setup.sh installs what is missing.")
endif()

find_library(DTC_JEMALLOC NAMES jemalloc)
if(NOT DTC_JEMALLOC)
  message(WARNING "jemalloc was not found: dtc is built with the C library's slower allocator. "
                  "scripts/setup.sh installs what is missing.")
endif()

# CUDA's headers provide types and constants; every CUDA library is opened at run time, none is linked.
find_path(DTC_CUDA_INCLUDE NAMES cuda_runtime_api.h HINTS /usr/local/cuda/include $ENV{CUDA_HOME}/include)
add_library(dtcCudaHeaders INTERFACE)
if(DTC_CUDA_INCLUDE)
  target_include_directories(dtcCudaHeaders SYSTEM INTERFACE "${DTC_CUDA_INCLUDE}")
  target_compile_definitions(dtcCudaHeaders INTERFACE DTC_HAVE_CUDA_HEADERS=1)
endif()

add_library(dtcAll INTERFACE) # all floors

# Folders whose sources are separate plugins or shared libraries.
set(DTC_PLUGIN_FOLDERS "/Clang/|/OneDnn/|/Graphviz/|/comm/mpi/|/Api/C/")

# Several sources of a folder are one translation unit, because most of the time of a compiler or of clang-tidy is
# spent on the headers of a file. With DTC_UNITY=OFF each file is a translation unit.
set(DTC_UNITY_BATCH 16)
function(dtc_unity target sources)
  if(NOT DTC_UNITY)
    return()
  endif()
  set(folders)
  foreach(source IN LISTS sources)
    get_filename_component(folder "${source}" DIRECTORY)
    file(RELATIVE_PATH folder "${CMAKE_SOURCE_DIR}" "${folder}")
    string(MAKE_C_IDENTIFIER "${folder}" group)
    list(APPEND folders ${group})
    list(APPEND of_${group} "${source}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(group IN LISTS folders)
    list(LENGTH of_${group} count)
    math(EXPR units "(${count} + ${DTC_UNITY_BATCH} - 1) / ${DTC_UNITY_BATCH}")
    set(number 0)
    foreach(source IN LISTS of_${group})
      math(EXPR unit "${number} * ${units} / ${count}")
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}_${unit}")
      math(EXPR number "${number} + 1")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP
                        UNITY_BUILD_CODE_BEFORE_INCLUDE "// NOLINTNEXTLINE(bugprone-suspicious-include)")
endfunction()

# The headers that nearly every source from lib/IR up includes are parsed once, into one precompiled header.
function(dtc_precompiled target)
  if(NOT DTC_PRECOMPILED)
    return()
  endif()
  if(NOT TARGET dtcPrecompiled)
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/precompiled.cpp" CONTENT "")
    add_library(dtcPrecompiled OBJECT "${CMAKE_BINARY_DIR}/precompiled.cpp")
    target_include_directories(dtcPrecompiled PRIVATE "${CMAKE_SOURCE_DIR}/include" "${CMAKE_BINARY_DIR}/include")
    target_precompile_headers(dtcPrecompiled PRIVATE "${CMAKE_SOURCE_DIR}/cmake/Precompiled.h")
  endif()
  target_precompile_headers(${target} REUSE_FROM dtcPrecompiled)
endfunction()

# lib/NAME/**.cpp without the plugins' -> the static library dtcNAME over all earlier floors.
function(dtc_floor name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/${name}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "${DTC_PLUGIN_FOLDERS}")
  if(NOT sources)
    return()
  endif()
  add_library(dtc${name} STATIC ${sources})
  dtc_unity(dtc${name} "${sources}")
  if(NOT name MATCHES "^(Support|Target|Sharding|Files)$")
    dtc_precompiled(dtc${name})
  endif()
  if(name MATCHES "^(Target|Files|Import|StableHlo|Torch|Onnx|Kernel|Jit|Cuda|Session|Train|Model|Check|Report|Api)$")
    target_compile_options(dtc${name} PRIVATE ${DTC_SELDOM_RUN})
  endif()
  target_include_directories(dtc${name} PUBLIC "${CMAKE_SOURCE_DIR}/include" "${CMAKE_BINARY_DIR}/include"
                             PRIVATE "${CMAKE_SOURCE_DIR}/lib/${name}")
  get_property(below GLOBAL PROPERTY DTC_FLOORS)
  target_link_libraries(dtc${name} PUBLIC ${below} Threads::Threads ${CMAKE_DL_LIBS})
  if(name MATCHES "^(Cuda|Runtime)$")
    target_link_libraries(dtc${name} PUBLIC dtcCudaHeaders)
  endif()
  if(name STREQUAL "Files")
    target_link_libraries(dtc${name} PUBLIC ZLIB::ZLIB)
  endif()
  target_link_libraries(dtcAll INTERFACE dtc${name})
  set_property(GLOBAL PROPERTY DTC_FLOORS dtc${name} ${below}) # the highest first, in link order
endfunction()

# The files that match the patterns -> embedded as text in the floor dtcNAME, whose FUNCTION returns them
# (EmbeddedFile.h).
function(dtc_embed name function)
  list(TRANSFORM ARGN PREPEND "${CMAKE_SOURCE_DIR}/" OUTPUT_VARIABLE patterns)
  file(GLOB files CONFIGURE_DEPENDS ${patterns})
  list(JOIN files "|" joined)
  set(out "${CMAKE_BINARY_DIR}/embedded/${function}.cpp")
  set(script "${CMAKE_SOURCE_DIR}/cmake/DtcEmbed.cmake")
  add_custom_command(OUTPUT "${out}" COMMAND "${CMAKE_COMMAND}" -DOUT=${out} -DFUNCTION=${function} "-DFILES=${joined}" -P "${script}"
                     DEPENDS ${files} "${script}" VERBATIM)
  target_sources(dtc${name} PRIVATE "${out}")
endfunction()

# FOLDER/*.cpp -> the plugin NAME.so, which the binary opens with dlopen; OUTSIDE is the library that it wraps.
function(dtc_module name folder outside)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*.cpp")
  if(NOT sources)
    return()
  endif()
  if(NOT TARGET ${outside})
    message(WARNING "${name} is not built: ${outside} was not found. scripts/setup.sh installs what is missing.")
    return()
  endif()
  add_library(${name} MODULE ${sources})
  dtc_unity(${name} "${sources}")
  set_target_properties(${name} PROPERTIES PREFIX "")
  target_compile_options(${name} PRIVATE ${DTC_SELDOM_RUN})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/include" "${CMAKE_BINARY_DIR}/include"
                             "${CMAKE_SOURCE_DIR}/${folder}")
  target_link_libraries(${name} PRIVATE ${outside} Threads::Threads)
  if(TARGET dtcSupport)
    target_link_libraries(${name} PRIVATE dtcSupport)
  endif()
  set_property(GLOBAL APPEND PROPERTY DTC_MODULES ${name})
  # An RPATH, not a RUNPATH: it also holds for the libraries of a library that a package brings.
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN")
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  if(outside STREQUAL "dtcMpi") # it belongs to the MPI of one machine: packages do not bring it
    return()
  endif()
  set(component dtc)
  if(outside STREQUAL "dtcClang")
    set(component system)
  endif()
  install(TARGETS ${name} RUNTIME_DEPENDENCY_SET dtcBundled LIBRARY DESTINATION lib/dtc COMPONENT ${component})
endfunction()
