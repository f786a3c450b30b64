# The library: all layers in one. libelmo.a always, libelmo.so with ELMO_SHARED, both of the same objects.
# Programs of this tree link elmo::elmo, which is the static one.
get_property(layers GLOBAL PROPERTY elmo_layers)
get_property(elmo_dependencies GLOBAL PROPERTY elmo_dependencies)
list(REMOVE_DUPLICATES elmo_dependencies)
list(FILTER elmo_dependencies EXCLUDE REGEX "^elmo_|^nlohmann_json::|^Boost::")  # inside, and without a library
list(TRANSFORM elmo_dependencies REPLACE "^/.*/lib([^/.]+)\\.[^/]*$" "$<BUILD_INTERFACE:\\0>;$<INSTALL_INTERFACE:\\1>")
list(TRANSFORM layers REPLACE ".+" "$<TARGET_OBJECTS:\\0>" OUTPUT_VARIABLE objects)

function(elmo_library target kind)
  add_library(${target} ${kind} ${objects})
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_libraries(${target} PRIVATE ${elmo_dependencies})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME elmo LINKER_LANGUAGE CXX
    ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endfunction()

# One place for all: beside bin, with the CUDA backend in lib/elmo, where program and library look for it.
set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "Where libraries are installed, below the prefix")
include(GNUInstallDirs)
elmo_library(elmo_static STATIC)
add_library(elmo::elmo ALIAS elmo_static)
if(ELMO_SHARED)
  elmo_library(elmo_shared SHARED)
  target_link_options(elmo_shared PRIVATE -Wl,--no-undefined)
endif()
