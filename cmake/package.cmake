# `make package`: .deb packages for this Debian (the program, the library for developers, the CUDA backend where it was
# built), and a .tar.gz that carries the libraries it needs and runs from any folder.
set(CPACK_PACKAGE_NAME elmo)
set(CPACK_PACKAGE_VENDOR elmo)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Classifiers with very many labels: training, evaluation, prediction")
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program library)
if(TARGET elmo_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
if(TARGET elmo_mpi)  # the program does without: it depends on the MPI that was found
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/package_archive.cmake)
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR}/packages)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "elmo developers <elmo@localhost>")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CUDAToolkit_LIBRARY_DIR})
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME elmo)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libelmo-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "libbz2-dev, libdnnl-dev, libfmt-dev, liblzma-dev, libsimdjson-dev, libtomlplusplus-dev, libutf8proc-dev, \
libzstd-dev, ocl-icd-opencl-dev, zlib1g-dev")
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME elmo-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "elmo (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME elmo-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "elmo (= ${PROJECT_VERSION})")

# The libraries that the program needs (libelmo.so needs the same): in the archive only.
install(CODE "set(bundle_folder ${CMAKE_INSTALL_LIBDIR}/elmo)" COMPONENT bundle EXCLUDE_FROM_ALL)
install(CODE "set(program $<TARGET_FILE:elmo>)" COMPONENT bundle EXCLUDE_FROM_ALL)
install(SCRIPT cmake/bundle.cmake COMPONENT bundle EXCLUDE_FROM_ALL)
include(CPack)
