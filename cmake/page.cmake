# The chat page of the server as a C++ source: page.h declares what this writes.
set(page_source ${CMAKE_BINARY_DIR}/generated/page.cpp)
set(page_html ${CMAKE_SOURCE_DIR}/src/server/page/chat.html)
add_custom_command(OUTPUT ${page_source} DEPENDS ${page_html} ${CMAKE_SOURCE_DIR}/cmake/write_page.cmake VERBATIM COMMENT ""
  COMMAND ${CMAKE_COMMAND} -DINPUT=${page_html} -DOUTPUT=${page_source} -P ${CMAKE_SOURCE_DIR}/cmake/write_page.cmake)
target_sources(braid_server PRIVATE ${page_source})
