// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/post_processor.h"

#include <string>

namespace braid {

PostProcessor::PostProcessor(const JsonPlace& place) {
  if (!place.is_null()) read(place);
}

void PostProcessor::read(const JsonPlace& place) {
  const std::string& type = place.at("type").text();
  if (type == "Sequence") {
    for (const JsonPlace& processor : place.at("processors").elements()) read(processor);
  } else if (type == "TemplateProcessing") {
    read_template(place);
  } else if (type != "ByteLevel") {  // ByteLevel changes offsets only, which nobody asks for here
    place.at("type").refuse("unknown post-processor '" + type + "'");
  }
}

void PostProcessor::read_template(const JsonPlace& place) {
  Wrap wrap;
  bool after = false;
  for (const JsonPlace& piece : place.at("single").elements()) {
    if (piece.is_object() && piece.has("Sequence")) {
      const JsonPlace id = piece.at("Sequence").at("id");
      if (id.text() != "A" || after) id.refuse("a template for one text needs the text A once");
      after = true;
      continue;
    }
    const JsonPlace id = piece.at("SpecialToken").at("id");
    for (const JsonPlace& token : place.at("special_tokens").at(id.text()).at("ids").elements()) {
      const int64_t value = token.integer();
      if (value < 0 || value > kMaxTokenId) token.refuse("not the id of a token");
      (after ? wrap.after : wrap.before).push_back(static_cast<int32_t>(value));
    }
  }
  if (!after) place.at("single").refuse("a template for one text needs the text A once");
  wraps_.push_back(std::move(wrap));
}

std::vector<int32_t> PostProcessor::apply(std::vector<int32_t> ids) const {
  for (const Wrap& wrap : wraps_) {
    ids.insert(ids.begin(), wrap.before.begin(), wrap.before.end());
    ids.insert(ids.end(), wrap.after.begin(), wrap.after.end());
  }
  return ids;
}

}  // namespace braid
