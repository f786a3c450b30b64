# elmo_cuda_architectures(LIST OUT): the list as kernels are compiled for it.
#   90a becomes 90a-real: its PTX runs on nothing but 9.0, which the machine code serves.
#   Hopper without 90a (90, 90-real, 90-virtual) gets 90a-real beside it: the head's kernels for Hopper exist
#   only there.
function(elmo_cuda_architectures list out)
  list(TRANSFORM list REPLACE "^90a$" "90a-real")
  if(list MATCHES "(^|;)90(-|;|$)" AND NOT "90a-real" IN_LIST list)
    message(STATUS "CUDA architectures: 90a-real is added, for the head's kernels on Hopper")
    list(APPEND list 90a-real)
  endif()
  list(REMOVE_DUPLICATES list)
  set(${out} ${list} PARENT_SCOPE)
endfunction()
