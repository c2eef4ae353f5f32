// SPDX-License-Identifier: Apache-2.0
#include "engine/state_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/mapped_file.h"

namespace braid {

SavedState read_mark(const StatePool& pool, const PrefixCache& cache, MarkId mark, int64_t first) {
  SavedState saved{.first = first, .tokens = cache.tokens_of(mark), .slot = cache.slot_of(mark)};
  const SequenceState& state = cache.state_of(mark);
  const auto skipped = static_cast<size_t>(first / StatePool::kPageTokens);
  saved.pages.resize((state.pages.size() - skipped) * pool.page_bytes());
  for (size_t i = skipped; i < state.pages.size(); ++i)
    pool.download_page(std::span(saved.pages).subspan((i - skipped) * pool.page_bytes(), pool.page_bytes()),
                       state.pages[i]);
  return saved;
}

bool restore_mark(StatePool& pool, PrefixCache& cache, const SavedState& saved) {
  return cache.insert(saved.tokens, saved.first, [&](const SequenceState& state) {
    const auto skipped = static_cast<size_t>(saved.first / StatePool::kPageTokens);
    const std::span<const std::byte> pages(saved.pages);
    for (size_t i = skipped; i < state.pages.size(); ++i)
      pool.upload_page(state.pages[i], pages.subspan((i - skipped) * pool.page_bytes(), pool.page_bytes()));
    pool.upload_slot(state.slot, saved.slot);
  });
}

namespace {

// What a process that was killed had begun to write.
void remove_halves(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> halves;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().string().ends_with(kHalfWritten)) halves.push_back(entry.path());
  for (const std::filesystem::path& half : halves) std::filesystem::remove(half);
}

}  // namespace

StateStore::StateStore(StatePool& pool, PrefixCache& cache, Options options)
    : pool_(pool), cache_(cache), options_(std::move(options)) {
  std::filesystem::create_directories(options_.folder);
  remove_halves(options_.folder);
  writer_ = std::thread([this] { write_loop(); });
}

StateStore::~StateStore() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

namespace {

std::vector<std::filesystem::directory_entry> state_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::directory_entry> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == ".state") files.push_back(entry);
  const auto newer = [](const auto& a, const auto& b) { return a.last_write_time() > b.last_write_time(); };
  std::ranges::sort(files, newer);
  return files;
}

}  // namespace

void StateStore::load() {
  std::vector<SavedState> states;
  int64_t bytes = 0, unusable = 0;
  std::string why;
  for (const auto& entry : state_files(options_.folder)) {
    bytes += static_cast<int64_t>(entry.file_size());
    if (bytes > options_.bytes) break;
    try {
      const MappedFile file(entry.path(), MappedFile::Mode::Read);
      states.push_back(decode_state(file.bytes(), options_.shape));
    } catch (const Error& error) {
      why = fmt::format("{}: {}", entry.path().string(), error.message());
      ++unusable;
      std::filesystem::remove(entry.path());
    }
  }
  // What others begin with comes first.
  std::ranges::stable_sort(states, std::less{}, [](const SavedState& state) { return state.tokens.size(); });
  int64_t restored = 0;
  for (const SavedState& state : states) restored += restore_mark(pool_, cache_, state) ? 1 : 0;
  for (const MarkId mark : cache_.marks()) written_[mark] = std::ssize(cache_.tokens_of(mark));
  log::info("kept state folder={} restored={} files={}", options_.folder.string(), restored, states.size());
  if (unusable > 0) log::warn("kept state discarded files={} last=\"{}\"", unusable, why);
}

// False when nothing was handed over.
bool StateStore::write_next(bool wait) {
  constexpr size_t kMostNoted = 4096;
  while (noted_.size() > kMostNoted) noted_.pop_front();
  while (!noted_.empty() && !cache_.has(noted_.front())) noted_.pop_front();
  std::unique_lock lock(mutex_);
  if (wait) changed_.wait(lock, [&] { return !pending_; });
  if (refused_) noted_.clear();
  if (pending_ || noted_.empty()) return false;
  const MarkId mark = noted_.front();
  noted_.pop_front();
  const std::vector<int32_t> tokens = cache_.tokens_of(mark);
  // The file begins where that of the longest mark within it ends.
  const PrefixCache::Hit before = cache_.find(std::span(tokens).first(tokens.size() - 1));
  const auto known = written_.find(before.mark);
  const int64_t common = known == written_.end() ? 0 : std::min(known->second, before.length);
  const int64_t first = common / StatePool::kPageTokens * StatePool::kPageTokens;
  SavedState state = read_mark(pool_, cache_, mark, first);
  state.identity = options_.shape.identity;
  const uint64_t name = checksum(std::as_bytes(std::span(tokens)), options_.shape.identity);
  pending_ = File{.path = options_.folder / fmt::format("{:016x}.state", name), .bytes = encode_state(state)};
  std::erase_if(written_, [&](const auto& entry) { return !cache_.has(entry.first); });
  written_[mark] = std::ssize(tokens);
  lock.unlock();
  changed_.notify_all();
  return true;
}

void StateStore::drain() {
  while (write_next(true)) {
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !pending_; });
}

void StateStore::remove_oldest() {
  int64_t bytes = 0;
  for (const auto& entry : state_files(options_.folder)) {
    bytes += static_cast<int64_t>(entry.file_size());
    if (bytes > options_.bytes) std::filesystem::remove(entry.path());
  }
}

void StateStore::write_loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return pending_ || ending_; });
    if (!pending_) return;
    const File file = std::move(*pending_);  // which stays, emptied, until it is written
    lock.unlock();
    std::string refusal;
    try {
      write_whole(file.path, file.bytes);
      remove_oldest();
    } catch (const std::exception& error) {
      refusal = error.what();
    }
    lock.lock();
    if (!refusal.empty()) {
      log::warn("kept state is no longer written: {}", refusal);
      refused_ = true;
    }
    pending_.reset();
    changed_.notify_all();
  }
}

}  // namespace braid
