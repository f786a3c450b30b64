# libelmo_mpi.so: the ranks of a run over MPI. It holds the few calls of MPI that elmo makes, and shows one symbol
# (src/ranks/plugin.h). A binary belongs to one MPI: this is the one that was found.
set(mpi_interface_files include/elmo/ranks.h src/ranks/plugin.h)
set(mpi_interface "${PROJECT_VERSION} ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
foreach(file ${mpi_interface_files})
  file(SHA256 ${CMAKE_SOURCE_DIR}/${file} hash)
  string(SUBSTRING ${hash} 0 12 hash)
  string(APPEND mpi_interface " ${hash}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${file})
endforeach()
set_source_files_properties(src/ranks/launch.cpp src/ranks/mpi/mpi_ranks.cpp PROPERTIES
  COMPILE_DEFINITIONS ELMO_RANKS_INTERFACE="${mpi_interface}")
if(MPI_CXX_FOUND)
  add_library(elmo_mpi MODULE)
  target_link_libraries(elmo_mpi PRIVATE elmo_ranks_mpi)
  target_link_options(elmo_mpi PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
  set_target_properties(elmo_mpi PROPERTIES LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
endif()
