# Completion of braid's commands and options in fish: asks the program itself, so it never falls behind.
# SPDX-License-Identifier: Apache-2.0
complete -c braid -n __fish_use_subcommand -f -a "(braid --help | string replace -rf '^  ([a-z]+) +(\S.*)\$' '\$1\t\$2')"
complete -c braid -n 'string match -q -- "-*" (commandline -ct)' -f \
  -a "(braid (string match -v -- '-*' (commandline -opc)[2..])[1] --help | string match -ra -- '--[a-z][a-z-]+')"
