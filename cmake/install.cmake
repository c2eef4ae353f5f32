# What `make install` puts beside the program: a service for systemd, completion for bash, and the documents.
include(GNUInstallDirs)
configure_file(share/braid.service.in ${CMAKE_BINARY_DIR}/generated/braid.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/braid.service DESTINATION lib/systemd/system)
install(FILES share/braid.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME braid)
install(FILES README.md LICENSE NOTICE docs/options.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
