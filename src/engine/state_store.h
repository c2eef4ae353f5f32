// Kept state on disk: what the prefix cache holds survives the process, one file a mark.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "state/pool.h"
#include "state/prefix_cache.h"
#include "state/state_file.h"

namespace braid {

// What a mark remembers, from token `first` on, and back. `path` is a file; errors are those of state_file.h.
SavedState read_mark(const StatePool& pool, const PrefixCache& cache, MarkId mark, int64_t first);
// False when there is no room for it, or what comes before `first` is not there.
bool restore_mark(StatePool& pool, PrefixCache& cache, const SavedState& state);

// A folder of such files, each of which holds what its tokens add to those of another. The engine's thread reads state,
// and a thread of its own writes: files are whole or not there, whenever the process ends. Where the disk refuses, that
// is said once, and nothing more is written.
class StateStore {
 public:
  struct Options {
    std::filesystem::path folder;
    int64_t bytes = 0;  // of all files; the oldest go first
    StateShape shape;
  };
  StateStore(StatePool& pool, PrefixCache& cache, Options options);
  ~StateStore();

  // Puts back what fits, the newest first. Files that cannot be used are deleted, with one line for all of them.
  void load();
  // This mark is to be written, if it still exists then.
  void note(MarkId mark) { noted_.push_back(mark); }
  // Hands the next noted mark to the writer: where that is busy, later (`wait`), or not at all. False when nothing was
  // handed over.
  bool write_next(bool wait);
  // Writes everything that is noted, and waits for it.
  void drain();

 private:
  struct File {
    std::filesystem::path path;
    std::vector<std::byte> bytes;
  };
  void write_loop();
  void remove_oldest();
  std::optional<SavedState> read(const std::filesystem::path& path) const;

  StatePool& pool_;
  PrefixCache& cache_;
  Options options_;
  std::deque<MarkId> noted_;
  std::unordered_map<MarkId, int64_t> written_;  // marks with a file, and their lengths

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<File> pending_;
  bool ending_ = false, refused_ = false;
  std::thread writer_;
};

}  // namespace braid
