# Writes HEADER with the commit of the checkout SOURCE, only when it changes: "1a2b3c4", "1a2b3c4 with changes", or
# "no commit" outside of a checkout.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty=\ with\ changes --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR commit STREQUAL "")
  set(commit "no commit")
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define ELMO_COMMIT \"${commit}\"\n" @ONLY)
