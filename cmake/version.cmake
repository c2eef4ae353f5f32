# Library braid_version: base/version.h with the project's version and the commit that is built. Not a part of braid_base,
# so that a commit makes only those link again who print it.
find_package(Git QUIET)
set(version_source ${CMAKE_BINARY_DIR}/generated/version.cpp)
add_custom_target(braid_version_source BYPRODUCTS ${version_source} VERBATIM COMMENT ""
  COMMAND ${CMAKE_COMMAND} -DGIT=${GIT_EXECUTABLE} -DVERSION=${PROJECT_VERSION} -DSOURCE=${CMAKE_SOURCE_DIR}
          -DOUTPUT=${version_source} -P ${CMAKE_SOURCE_DIR}/cmake/write_version.cmake)
add_library(braid_version STATIC ${version_source})
target_link_libraries(braid_version PRIVATE braid_flags)
add_dependencies(braid_version braid_version_source)
foreach(folder server cli)
  get_target_property(kind braid_${folder} TYPE)
  if(kind STREQUAL "INTERFACE_LIBRARY")
    target_link_libraries(braid_${folder} INTERFACE braid_version)
  else()
    target_link_libraries(braid_${folder} PUBLIC braid_version)
  endif()
endforeach()
