# What a folder of the tree becomes: a static library per floor, a shared module per plugin, and the outside
# libraries that they use, each found or explained.

find_package(Threads REQUIRED)

# LLVM and Clang: only the JIT's plugin sees them. The shared libraries alone are looked for, since their CMake
# packages ask for a dozen development packages that we do not need.
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

# zlib: the parts of .npz files are deflated.
find_package(ZLIB)
if(NOT ZLIB_FOUND)
  message(FATAL_ERROR "zlib with its header was not found. scripts/setup.sh installs what is missing.")
endif()

# CUDA's headers give types and constants; every CUDA library is opened at run time, none is linked.
find_path(DTC_CUDA_INCLUDE NAMES cuda_runtime_api.h HINTS /usr/local/cuda/include $ENV{CUDA_HOME}/include)
add_library(dtcCudaHeaders INTERFACE)
if(DTC_CUDA_INCLUDE)
  target_include_directories(dtcCudaHeaders SYSTEM INTERFACE "${DTC_CUDA_INCLUDE}")
  target_compile_definitions(dtcCudaHeaders INTERFACE DTC_HAVE_CUDA_HEADERS=1)
endif()

add_library(dtcAll INTERFACE) # every floor that exists

# lib/NAME/*.cpp (and its subfolders that are no plugins) -> the static library dtcNAME over all earlier floors.
function(dtc_floor name)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/${name}/*.cpp")
  if(NOT sources)
    return()
  endif()
  add_library(dtc${name} STATIC ${sources})
  target_include_directories(dtc${name} PUBLIC "${CMAKE_SOURCE_DIR}/include" "${CMAKE_BINARY_DIR}/include"
                             PRIVATE "${CMAKE_SOURCE_DIR}/lib/${name}")
  get_property(below GLOBAL PROPERTY DTC_FLOORS)
  target_link_libraries(dtc${name} PUBLIC ${below} Threads::Threads ${CMAKE_DL_LIBS})
  if(name MATCHES "^(Jit|Runtime)$")
    target_link_libraries(dtc${name} PUBLIC dtcCudaHeaders)
  endif()
  if(name STREQUAL "Runtime")
    target_link_libraries(dtc${name} PUBLIC ZLIB::ZLIB)
  endif()
  target_link_libraries(dtcAll INTERFACE dtc${name})
  set_property(GLOBAL PROPERTY DTC_FLOORS dtc${name} ${below}) # the highest first, as the linker wants them
endfunction()

# FOLDER/*.h -> embedded as text in the floor dtcNAME (lib/NAME/Prologue.h says how they are reached).
function(dtc_embed name folder)
  if(NOT TARGET dtc${name})
    return()
  endif()
  file(GLOB files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*.h")
  list(JOIN files "|" joined)
  set(out "${CMAKE_BINARY_DIR}/embedded/${name}.cpp")
  set(script "${CMAKE_SOURCE_DIR}/cmake/DtcEmbed.cmake")
  add_custom_command(OUTPUT "${out}" COMMAND "${CMAKE_COMMAND}" -DOUT=${out} "-DFILES=${joined}" -P "${script}"
                     DEPENDS ${files} "${script}" VERBATIM)
  target_sources(dtc${name} PRIVATE "${out}")
endfunction()

# FOLDER/*.cpp -> the plugin NAME.so, which the binary opens with dlopen; OUTSIDE is what it is a door to.
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
  set_target_properties(${name} PROPERTIES PREFIX "")
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/include" "${CMAKE_BINARY_DIR}/include"
                             "${CMAKE_SOURCE_DIR}/${folder}")
  target_link_libraries(${name} PRIVATE ${outside} Threads::Threads)
  if(TARGET dtcSupport)
    target_link_libraries(${name} PRIVATE dtcSupport)
  endif()
  set_property(GLOBAL APPEND PROPERTY DTC_MODULES ${name})
  install(TARGETS ${name} LIBRARY DESTINATION lib/dtc)
endfunction()
