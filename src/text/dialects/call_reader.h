// CallReader: reads one tool call as it streams, in the form that its subclass knows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "text/dialects/dialect.h"
#include "text/dialects/parameter_types.h"

namespace braid {

// What became known of a call: its name, once; and the next piece of its arguments, as JSON text.
struct CallNews {
  std::optional<std::string> name;
  std::string arguments;
};

// Not thread-safe. The pieces of the arguments, joined, are always the start of a JSON object.
class CallReader {
 public:
  virtual ~CallReader() = default;
  // More: taken. Done: the call is whole. Broken: what came cannot stand in a call.
  enum class Result { More, Done, Broken };
  virtual Result push(char c, CallNews& news) = 0;
  // What was taken and is no part of the call, this character included, after Done or Broken.
  virtual std::string rest() const = 0;
  // Makes the arguments a whole object where they stop.
  virtual void complete(CallNews& news) = 0;
};

// {"name": "f", "arguments": {...}}, to be pushed from the brace on. Arguments before the name wait for it;
// "parameters" means arguments too; a string that holds an object counts as that object; none count as {}.
std::unique_ptr<CallReader> make_json_call();

// <function=f><parameter=key>\nvalue\n</parameter></function>, to be pushed from the name on. Values are typed by
// `types`; those that are strings for sure stream. `types` outlives the reader.
std::unique_ptr<CallReader> make_xml_call(const ParameterTypes& types);

}  // namespace braid
