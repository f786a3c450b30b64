# Writes elmo_interface.h: what a backend in a separate library and the program must have in common, as one
# name. HEADERS (a list) are those that both see; VERSION and COMPILER the rest.
set(all "")
foreach(header ${HEADERS})
  file(SHA256 ${header} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 12 hash)
file(CONFIGURE OUTPUT ${HEADER} @ONLY CONTENT [[
// Made by CMake (tools/write_interface.cmake).
#pragma once
#define ELMO_BACKEND_INTERFACE "@VERSION@ @hash@ @COMPILER@"
]])
