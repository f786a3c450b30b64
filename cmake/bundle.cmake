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

# The licence of each, as Debian states it.
foreach(library ${found})
  file(REAL_PATH ${library} file)
  execute_process(COMMAND dpkg-query -S ${file} OUTPUT_VARIABLE owner ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REGEX REPLACE "[:,].*" "" owner "${owner}")
  if(NOT owner)  # found through a link to /usr
    string(REGEX REPLACE "^/usr" "" file "${file}")
    execute_process(COMMAND dpkg-query -S ${file} OUTPUT_VARIABLE owner ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX REPLACE "[:,].*" "" owner "${owner}")
  endif()
  if(owner AND EXISTS /usr/share/doc/${owner}/copyright)
    file(INSTALL /usr/share/doc/${owner}/copyright RENAME ${owner}.txt FOLLOW_SYMLINK_CHAIN
      DESTINATION $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share/doc/elmo/licences)
  else()
    message(FATAL_ERROR "${library}: no licence was found for it")
  endif()
endforeach()
