# libelmo_cuda.so, and the name of the interface that it and the program share. The library has its own copy of
# the small layers below it, and shows one symbol (src/backend/plugin.h).
set(elmo_shared_layers base numerics tensor memory backend)
file(GLOB interface_headers CONFIGURE_DEPENDS src/backend/ops/*.h include/elmo/context.h include/elmo/error.h include/elmo/memory.h)
foreach(layer ${elmo_shared_layers})
  file(GLOB headers CONFIGURE_DEPENDS src/${layer}/*.h)
  list(APPEND interface_headers ${headers})
endforeach()
set(interface_folder ${CMAKE_BINARY_DIR}/interface)
add_custom_command(OUTPUT ${interface_folder}/elmo_interface.h
  DEPENDS ${interface_headers} ${CMAKE_SOURCE_DIR}/tools/write_interface.cmake
  COMMAND ${CMAKE_COMMAND} "-DHEADERS=${interface_headers}" -DHEADER=${interface_folder}/elmo_interface.h
          -DVERSION=${PROJECT_VERSION} "-DCOMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
          -P ${CMAKE_SOURCE_DIR}/tools/write_interface.cmake
  VERBATIM)
add_custom_target(elmo_interface DEPENDS ${interface_folder}/elmo_interface.h)
add_dependencies(elmo_backend elmo_interface)
target_include_directories(elmo_backend PRIVATE ${interface_folder})

if(ELMO_CUDA_FOUND)
  add_dependencies(elmo_backend_cuda elmo_interface)
  target_include_directories(elmo_backend_cuda PRIVATE ${interface_folder})
  set_target_properties(elmo_backend_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
  # Device code calls the constexpr functions of the numerics; products and sums are never contracted, as on a
  # CPU.
  target_compile_options(elmo_backend_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-fmad=false>)
  string(REPLACE ";" "," architectures "${CMAKE_CUDA_ARCHITECTURES}")
  set_source_files_properties(src/backend/cuda/device/context.cpp PROPERTIES
    COMPILE_DEFINITIONS ELMO_CUDA_ARCHITECTURES="${architectures}")

  add_library(elmo_cuda MODULE)
  target_link_libraries(elmo_cuda PRIVATE elmo_backend_cuda)
  target_link_options(elmo_cuda PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
  set_target_properties(elmo_cuda PROPERTIES LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
endif()
