# What `cmake --install` puts below the prefix: the program, the library with its headers, and what finds it again:
# find_package(elmo) and pkg-config.
include(CMakePackageConfigHelpers)
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/elmo)

# Libraries that come along (cmake/package.cmake) lie in lib/elmo. The old kind of RPATH, because they need each other.
set(rpath_kind -Wl,--disable-new-dtags)
target_link_options(elmo PRIVATE ${rpath_kind})
set_target_properties(elmo PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/elmo")
install(TARGETS elmo RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT program)
if(TARGET elmo_cuda)
  install(TARGETS elmo_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/elmo COMPONENT cuda OPTIONAL)
endif()

foreach(engine mpi gloo)
  if(TARGET elmo_${engine})
    install(TARGETS elmo_${engine} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/elmo COMPONENT ${engine} OPTIONAL)
  endif()
endforeach()

set(library_targets elmo_static)
set_target_properties(elmo_static PROPERTIES EXPORT_NAME static)
if(ELMO_SHARED)
  list(APPEND library_targets elmo_shared)
  set_target_properties(elmo_shared PROPERTIES EXPORT_NAME shared INSTALL_RPATH "$ORIGIN/elmo")
  target_link_options(elmo_shared PRIVATE ${rpath_kind})
endif()
install(TARGETS ${library_targets} EXPORT elmo
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(DIRECTORY include/elmo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(EXPORT elmo NAMESPACE elmo:: FILE elmoTargets.cmake DESTINATION ${config_folder} COMPONENT library)
export(EXPORT elmo NAMESPACE elmo:: FILE ${CMAKE_BINARY_DIR}/elmoTargets.cmake)  # for python/, which links this build

configure_package_config_file(cmake/elmoConfig.cmake.in ${CMAKE_BINARY_DIR}/elmoConfig.cmake
  INSTALL_DESTINATION ${config_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/elmoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/elmoConfig.cmake ${CMAKE_BINARY_DIR}/elmoConfigVersion.cmake
  DESTINATION ${config_folder} COMPONENT library)

# pkg-config: what the static library needs is private where a shared one is there.
set(packages "fmt zlib liblzma libzstd libutf8proc simdjson tomlplusplus")
list(TRANSFORM OpenMP_CXX_LIB_NAMES PREPEND "-l" OUTPUT_VARIABLE openmp)
list(JOIN openmp " " openmp)
set(libraries "-lbz2 -ldnnl ${openmp} -pthread -ldl")
foreach(private_or_public PRIVATE PUBLIC)
  set(${private_or_public}_PACKAGES "")
  set(${private_or_public}_LIBRARIES "")
endforeach()
set(scope PUBLIC)
if(ELMO_SHARED)
  set(scope PRIVATE)
endif()
set(${scope}_PACKAGES ${packages})
set(${scope}_LIBRARIES ${libraries})
file(RELATIVE_PATH UP_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/elmo.pc.in ${CMAKE_BINARY_DIR}/elmo.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/elmo.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
