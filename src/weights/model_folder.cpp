// SPDX-License-Identifier: Apache-2.0
#include "weights/model_folder.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "weights/safetensors.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

bool is_hub_word(std::string_view word) {
  return !word.empty() && word.front() != '.' && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  return text;
}

// The snapshot that `revision` names in a model's folder of the cache; an empty path if there is none.
fs::path snapshot(const fs::path& folder, const std::string& revision) {
  std::error_code error;
  std::string commit = revision;
  if (const fs::path ref = folder / "refs" / revision; fs::is_regular_file(ref, error))
    commit = trimmed(read_file(ref));
  if (!is_hub_word(commit)) return {};
  const fs::path found = folder / "snapshots" / commit;
  return fs::is_directory(found, error) ? found : fs::path();
}

}  // namespace

fs::path hub_cache() {
  std::vector<char> buffer(1 << 14);
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return {};
  return fs::path(found->pw_dir) / ".cache" / "huggingface" / "hub";
}

fs::path find_model(const std::string& model, const fs::path& cache) {
  if (!model.empty() && is_there(model)) {
    if (!fs::is_directory(model))
      fail("model '{}': is a file, where a folder with config.json and safetensors is expected{}", printable(model),
           fs::path(model).extension() == ".gguf" ? " (GGUF files are not supported)" : "");
    return model;
  }
  const size_t at = std::min(model.find('@'), model.size()), slash = model.find('/');
  const std::string revision = at < model.size() ? model.substr(at + 1) : "main";
  if (slash == std::string::npos || slash > at || !is_hub_word(model.substr(0, slash)) ||
      !is_hub_word(model.substr(slash + 1, at - slash - 1)) || !is_hub_word(revision))
    fail("model '{}': there is no such file or folder (and it is not a name of the form organisation/name)",
         printable(model));
  const fs::path folder =
      cache / ("models--" + model.substr(0, slash) + "--" + model.substr(slash + 1, at - slash - 1));
  const fs::path found = snapshot(folder, revision);
  if (found.empty())
    fail("model '{}': there is no such file or folder, and {} has no snapshot of revision {}", model, folder.string(),
         revision);
  return found;
}

}  // namespace braid
