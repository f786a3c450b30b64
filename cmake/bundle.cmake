# Copies the shared libraries of the program into the folder where its RPATH looks, all but those of the C library,
# which must be the machine's own.
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${program} RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
  POST_EXCLUDE_REGEXES "/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util))[.]so")
if(missing)
  message(FATAL_ERROR "not found: ${missing}")
endif()
foreach(library ${found})
  file(INSTALL ${library} DESTINATION $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${bundle_folder} FOLLOW_SYMLINK_CHAIN)
endforeach()
