# One CMake target per module of ARCHITECTURE.md, linking only the modules below it.
find_package(fmt REQUIRED)
find_package(Threads REQUIRED)

add_library(kirchhoff_options INTERFACE)
target_compile_features(kirchhoff_options INTERFACE cxx_std_20)
# -fno-math-errno and -fno-trapping-math let loops vectorise; the values stay IEEE's, which -ffast-math would give up.
target_compile_options(kirchhoff_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -fopenmp-simd -fno-math-errno -fno-trapping-math
  $<$<BOOL:${KIRCHHOFF_WERROR}>:-Werror>)
if(KIRCHHOFF_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # In a unit of several files GCC takes each for a header, whose file-local types other units might see.
  target_compile_options(kirchhoff_options INTERFACE -Wno-subobject-linkage)
endif()
if(KIRCHHOFF_SANITIZE)
  target_compile_options(kirchhoff_options INTERFACE -fsanitize=${KIRCHHOFF_SANITIZE} -fno-omit-frame-pointer
                                                     -fno-sanitize-recover=all)
  # Checks inside a loop keep clang from vectorising it, which it would say of every one.
  target_compile_options(kirchhoff_options INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>)
  target_link_options(kirchhoff_options INTERFACE -fsanitize=${KIRCHHOFF_SANITIZE})
endif()

# Headers that most sources of the JSON-reading modules share are compiled once a target.
function(kirchhoff_precompile target)
  target_precompile_headers(${target} PRIVATE <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp> <functional> <map> <memory>
                                              <optional> <span> <string> <string_view> <vector> ${ARGN})
endfunction()

# kirchhoff_add_module(NAME DEPENDS modules... PUBLIC_LIBRARIES targets... LIBRARIES targets...)
# Sources: src/NAME/**.cc; public headers: include/kirchhoff/NAME/. DEPENDS are the modules it may know, PUBLIC_LIBRARIES
# third-party targets that its public headers include, LIBRARIES those that only its sources do. SEPARATE: its sources are
# compiled one by one even where CMAKE_UNITY_BUILD joins those of other modules (their file-local names meet).
function(kirchhoff_add_module name)
  cmake_parse_arguments(ARG "SEPARATE" "" "DEPENDS;LIBRARIES;PUBLIC_LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  add_library(kirchhoff_${name} STATIC ${sources})
  add_library(kirchhoff::${name} ALIAS kirchhoff_${name})
  set_target_properties(kirchhoff_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_compile_features(kirchhoff_${name} PUBLIC cxx_std_20)
  if(ARG_SEPARATE)
    set_target_properties(kirchhoff_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  target_include_directories(kirchhoff_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPENDS PREPEND kirchhoff_ OUTPUT_VARIABLE depends)
  target_link_libraries(kirchhoff_${name} PUBLIC ${depends} ${ARG_PUBLIC_LIBRARIES} fmt::fmt
                                          PRIVATE ${ARG_LIBRARIES} $<BUILD_INTERFACE:kirchhoff_options>)
  set_property(GLOBAL APPEND PROPERTY KIRCHHOFF_MODULES kirchhoff_${name})
endfunction()
