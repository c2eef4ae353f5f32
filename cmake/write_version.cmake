# Writes OUTPUT from src/base/version.cpp.in; touches it only when it changes. "unknown" stands for no git or no repository.
set(COMMIT "")
if(GIT)
  execute_process(COMMAND ${GIT} describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT COMMIT)
  set(COMMIT unknown)
endif()
configure_file(${SOURCE}/src/base/version.cpp.in ${OUTPUT} @ONLY)
