// Members: which members an object may have, by name: those that schemas name, and classes of others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "text/grammar/character_automaton.h"
#include "text/grammar/schema/facts.h"

namespace braid {

struct Members {
  struct Named {
    std::string name;
    Conjunction value;
    bool required = false;
  };
  // Names that no schema names, told apart by the patterns that they match.
  struct Others {
    CharacterAutomaton names;
    Conjunction value;
  };
  std::vector<Named> named;    // in order of declaration
  std::vector<Others> others;  // none of it empty
};

// What `properties`, `patternProperties`, `additionalProperties`, `propertyNames` and `required` of all members of the
// conjunction say together.
Members read_members(const FactsReader& reader, const Facts& facts, bool closed);

}  // namespace braid
