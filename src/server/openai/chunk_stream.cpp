// SPDX-License-Identifier: Apache-2.0
#include "server/openai/chunk_stream.h"

#include "server/openai/chat_writer.h"
#include "server/openai/error.h"

namespace braid::server {

Json ChunkStream::chunk(Json choices) const {
  return {{"id", head_.id},
          {"object", head_.object},
          {"created", head_.created},
          {"model", head_.model},
          {"choices", std::move(choices)}};
}

void ChunkStream::append_choice(std::string& out, Json choice) const {
  Json said = chunk(Json::array({std::move(choice)}));
  if (head_.usage) said["usage"] = nullptr;
  append_event(out, dump(said));
}

void ChunkStream::end(std::string& out) {
  if (head_.usage) {
    Json said = chunk(Json::array());
    said["usage"] = openai_usage(usage_);
    append_event(out, dump(said));
  }
  append_event(out, "[DONE]");
}

void ChunkStream::fail(const ApiError& error, std::string& out) {
  append_event(out, dump(openai_error_body(error)));
  append_event(out, "[DONE]");
}

}  // namespace braid::server
