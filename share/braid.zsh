#compdef braid
# Completion of braid's commands and options in zsh: asks the program itself, so it never falls behind.
# SPDX-License-Identifier: Apache-2.0
_braid() {
  local command=${${words[2,CURRENT-1]:#-*}[1]}
  if [[ $words[CURRENT] == -* ]]; then
    compadd -- ${(f)"$(_call_program options ${words[1]} $command --help | grep -oE -- '--[a-z][a-z-]+')"}
  elif [[ -z $command ]]; then
    compadd -- ${(f)"$(_call_program commands ${words[1]} --help | sed -n '/^Subcommands:/,$ s/^  \([a-z]\+\) .*/\1/p')"}
  else
    _files
  fi
}
_braid "$@"
