# Completion of braid's commands and options in bash: asks the program itself, so it never falls behind.
# SPDX-License-Identifier: Apache-2.0
_braid() {
  local word=${COMP_WORDS[COMP_CWORD]} command="" part
  for part in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $part == -* ]] || { command=$part; break; }
  done
  if [[ -z $command && $word != -* ]]; then
    local commands
    commands=$("${COMP_WORDS[0]}" --help 2>/dev/null | sed -n '/^Subcommands:/,$ s/^  \([a-z]\+\) .*/\1/p')
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
  elif [[ $word == -* ]]; then
    local options
    options=$("${COMP_WORDS[0]}" ${command:+"$command"} --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+')
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _braid braid
