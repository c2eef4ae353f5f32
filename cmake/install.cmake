# What `make install` puts beside the program: a service for systemd, completion for shells, a manual page, the documents.
include(GNUInstallDirs)
# At installation, since --prefix may say another place than the build did.
install(CODE "
  set(BRAID_PROGRAM \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/braid)
  set(BRAID_DOCUMENTS \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR})
  configure_file(\"${CMAKE_SOURCE_DIR}/share/braid.service.in\" \"${CMAKE_BINARY_DIR}/generated/braid.service\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/generated/braid.service DESTINATION lib/systemd/system)
install(FILES share/braid.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME braid)
install(FILES share/braid.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _braid)
install(FILES share/braid.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES share/braid.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES README.md LICENSE NOTICE docs/options.md examples/answer.cpp DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY bench/shapes DESTINATION ${CMAKE_INSTALL_DATADIR}/braid)
