// SPDX-License-Identifier: Apache-2.0
#include "server/responses/response_store.h"

#include <utility>
#include <vector>

namespace braid::server {
namespace {

// About what a value takes in memory, counted without writing it.
size_t bytes_of(const Json& value) {
  size_t out = sizeof(Json);
  if (value.is_string()) out += value.get_ref<const std::string&>().size();
  if (value.is_structured()) {
    for (const auto& [key, item] : value.items()) out += key.size() + bytes_of(item);
  }
  return out;
}

}  // namespace

Turn::Turn(std::shared_ptr<const Turn> parent, Json messages, std::shared_ptr<std::atomic<size_t>> bytes)
    : parent_(std::move(parent)), messages_(std::move(messages)), size_(bytes_of(messages_)), bytes_(std::move(bytes)) {
  *bytes_ += size_;
}

// A long conversation is a long chain, which is taken apart without recursion.
Turn::~Turn() {
  *bytes_ -= size_;
  std::shared_ptr<const Turn> next = std::move(parent_);
  while (next && next.use_count() == 1) {
    std::shared_ptr<const Turn> above = std::move(next->parent_);
    next = std::move(above);
  }
}

Json Turn::conversation() const {
  std::vector<const Turn*> turns;
  for (const Turn* turn = this; turn != nullptr; turn = turn->parent_.get()) turns.push_back(turn);
  Json out = Json::array();
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn)
    for (const Json& message : (*turn)->messages_) out.push_back(message);
  return out;
}

void ResponseStore::add(Entry entry) {
  auto turn = std::make_shared<const Turn>(std::move(entry.parent), std::move(entry.messages), bytes_);
  const std::lock_guard lock(mutex_);
  const size_t bytes = bytes_of(entry.response) + bytes_of(entry.items);
  *bytes_ += bytes;
  held_.push_front({entry.id, std::move(entry.response), std::move(entry.items), std::move(turn), bytes});
  places_[entry.id] = held_.begin();
  while (*bytes_ > most_bytes_ && !held_.empty()) drop(std::prev(held_.end()));
}

ResponseStore::Held* ResponseStore::find(const std::string& id) {
  const auto found = places_.find(id);
  if (found == places_.end()) return nullptr;
  held_.splice(held_.begin(), held_, found->second);
  return &*found->second;
}

void ResponseStore::drop(Place place) {
  *bytes_ -= place->bytes;
  places_.erase(place->id);
  held_.erase(place);
}

std::optional<Json> ResponseStore::response(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const Held* held = find(id);
  return held != nullptr ? std::optional(held->response) : std::nullopt;
}

std::optional<Json> ResponseStore::items(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const Held* held = find(id);
  return held != nullptr ? std::optional(held->items) : std::nullopt;
}

std::shared_ptr<const Turn> ResponseStore::turn(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const Held* held = find(id);
  return held != nullptr ? held->turn : nullptr;
}

bool ResponseStore::erase(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(id);
  if (found == places_.end()) return false;
  drop(found->second);
  return true;
}

}  // namespace braid::server
