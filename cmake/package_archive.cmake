# Read by CPack once per generator: the archive is one file, with the libraries that a bare machine lacks.
if(CPACK_GENERATOR STREQUAL "TGZ")
  list(APPEND CPACK_COMPONENTS_ALL bundle)
  set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
  set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
endif()
