// ResponseStore: the answers that later requests may go on from, as many as fit a number of bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/json.h"

namespace braid::server {

// What one response added to a conversation. Parents are shared by all that go on from them.
class Turn {
 public:
  // `messages`: of the request and of the answer, in the template's form.
  Turn(std::shared_ptr<const Turn> parent, Json messages, std::shared_ptr<std::atomic<size_t>> bytes);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // Of the whole conversation, oldest first.
  Json conversation() const;

 private:
  mutable std::shared_ptr<const Turn> parent_;  // moves only when the chain is taken apart
  Json messages_;
  size_t size_;
  std::shared_ptr<std::atomic<size_t>> bytes_;
};

// Any thread. Past the limit those go that were not used for longest.
class ResponseStore {
 public:
  static constexpr size_t kBytes = 64u << 20;

  explicit ResponseStore(size_t most_bytes = kBytes) : most_bytes_(most_bytes) {}

  // `response` as it was sent; `items`: what the request put in; `messages` as of Turn.
  struct Entry {
    std::string id;
    Json response, items, messages;
    std::shared_ptr<const Turn> parent;
  };
  void add(Entry entry);

  std::optional<Json> response(const std::string& id);
  std::optional<Json> items(const std::string& id);
  std::shared_ptr<const Turn> turn(const std::string& id);  // null: unknown, or gone
  bool erase(const std::string& id);
  size_t bytes() const { return *bytes_; }

 private:
  struct Held {
    std::string id;
    Json response, items;
    std::shared_ptr<const Turn> turn;
    size_t bytes;
  };
  using Place = std::list<Held>::iterator;

  Held* find(const std::string& id);
  void drop(Place place);

  mutable std::mutex mutex_;
  size_t most_bytes_;
  std::shared_ptr<std::atomic<size_t>> bytes_ = std::make_shared<std::atomic<size_t>>(0);
  std::list<Held> held_;  // the last used first
  std::unordered_map<std::string, Place> places_;
};

}  // namespace braid::server
