# The library as one archive, and its CMake package: find_package(Braid), target Braid::braid.
set(package_folders base tensor ops reference cpu cuda weights state model text engine api)
add_library(braid_library STATIC)
set_target_properties(braid_library PROPERTIES OUTPUT_NAME braid EXPORT_NAME braid LINKER_LANGUAGE CXX)
foreach(folder ${package_folders})
  foreach(part braid_${folder} braid_${folder}_avx2 braid_${folder}_avx512)
    if(TARGET ${part})
      get_target_property(kind ${part} TYPE)
      if(NOT kind STREQUAL "INTERFACE_LIBRARY")
        target_sources(braid_library PRIVATE $<TARGET_OBJECTS:${part}>)
      endif()
    endif()
  endforeach()
  # Headers of its interface: what runs a model is reached through api/device.h alone.
  if(NOT folder MATCHES "^(reference|cpu|cuda)$")
    install(DIRECTORY src/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/braid COMPONENT library
      FILES_MATCHING PATTERN "*.h" PATTERN "*_test.h" EXCLUDE)
  endif()
endforeach()
target_compile_features(braid_library PUBLIC cxx_std_20)
target_include_directories(braid_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/braid>)
# fmt by its headers alone, as the archive holds what it needs of the rest.
target_link_libraries(braid_library INTERFACE
  "$<INSTALL_INTERFACE:Threads::Threads;nlohmann_json::nlohmann_json;pcre2-8;utf8proc>")
if(BRAID_WITH_CUDA)
  target_link_libraries(braid_library INTERFACE "$<INSTALL_INTERFACE:CUDA::cudart_static>")
endif()

include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/braid)
configure_file(cmake/braid-config.cmake.in ${CMAKE_BINARY_DIR}/generated/braid-config.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/braid-config-version.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS braid_library EXPORT braid-targets ARCHIVE COMPONENT library)
install(EXPORT braid-targets NAMESPACE Braid:: DESTINATION ${package_folder} COMPONENT library)
install(FILES ${CMAKE_BINARY_DIR}/generated/braid-config.cmake ${CMAKE_BINARY_DIR}/generated/braid-config-version.cmake
  DESTINATION ${package_folder} COMPONENT library)
