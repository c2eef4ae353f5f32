// ChunkStream: what streams of chats and of completions have in common: their chunks, and how they end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "server/chat/answer_writer.h"

namespace braid::server {

// What every chunk says.
struct ChunkHead {
  std::string id, object, model;
  int64_t created = 0;
  bool usage = false;  // a chunk before the last event counts the tokens, and the others say that they do not
};

class ChunkStream : public AnswerWriter {
 public:
  void end(std::string& out) override;
  void fail(const ApiError& error, std::string& out) override;

 protected:
  explicit ChunkStream(ChunkHead head) : head_(std::move(head)) {}
  void append_choice(std::string& out, Json choice) const;
  void count(const TokenUsage& usage) { add_usage(usage_, usage); }

 private:
  Json chunk(Json choices) const;

  ChunkHead head_;
  TokenUsage usage_;
};

}  // namespace braid::server
