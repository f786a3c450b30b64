# elmo_precompile(target owner [headers...]): the target takes cmake/precompiled.h as it was compiled for `owner`, whose
# compiler flags are the same; the owner itself names further headers. Owners define no macros of other libraries.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR
    (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT ELMO_SANITIZE AND NOT ELMO_FUZZ))
  option(ELMO_PRECOMPILE "Read common headers once" ON)
endif()
if(ELMO_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The first is for ccache. The others are false alarms of GCC 12 inside std::string, which forgets in a precompiled
  # header that the standard library silenced them.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess;-Wno-array-bounds;-Wno-stringop-overflow>")
elseif(ELMO_PRECOMPILE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")  # for ccache
endif()
function(elmo_precompile target owner)
  if(NOT ELMO_PRECOMPILE)
    return()
  elseif(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:${CMAKE_SOURCE_DIR}/cmake/precompiled.h>" ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()
