// SPDX-License-Identifier: Apache-2.0
#include "weights/checkpoint.h"

#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr int kIndexDepth = 3;

// The folder's only *.safetensors file.
fs::path only_file(const fs::path& folder) {
  std::vector<fs::path> found;
  bool other_weights = false;
  for (const fs::path& path : list_folder(folder)) {
    const std::string extension = path.extension().string();
    if (extension == ".safetensors") found.push_back(path);
    other_weights |= extension == ".bin" || extension == ".pt" || extension == ".pth";
  }
  if (found.size() > 1)
    fail("{}: holds {} *.safetensors files but neither {} nor {}, which says what is where", folder.string(),
         found.size(), kSingleFile, kIndexFile);
  if (found.empty())
    fail("{}: holds no *.safetensors file{}", folder.string(),
         other_weights ? " (its *.bin, *.pt or *.pth files have to be converted to safetensors)" : "");
  return found.front();
}

// weight_map: tensor name to file name.
std::map<std::string, std::string> read_index(const fs::path& index) {
  return with_context(index.string(), [&] {
    const nlohmann::json contents = parse_flat_json(read_file(index), kIndexDepth);
    if (!contents.is_object() || !contents.contains("weight_map") || !contents["weight_map"].is_object())
      fail("'weight_map' is not there or not an object");
    std::map<std::string, std::string> map;
    for (const auto& [name, file] : contents["weight_map"].items()) {
      if (!file.is_string()) fail("weight_map: {}: expected a file name", printable(name));
      const auto shard = file.get<std::string>();
      if (shard.empty() || shard.find('\0') != std::string::npos || fs::path(shard).filename() != shard)
        fail("weight_map: {}: '{}' is not the name of a file in this folder", printable(name), printable(shard));
      map[name] = shard;
    }
    if (map.empty()) fail("'weight_map' is empty");
    return map;
  });
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder, const CheckpointOptions& options) : place_(folder.string()) {
  if (is_there(folder / kSingleFile)) {
    read(folder / kSingleFile, options);
  } else if (is_there(folder / kIndexFile)) {
    read_shards(folder / kIndexFile, options);
  } else {
    read(only_file(folder), options);
  }
}

Checkpoint Checkpoint::open_file(const fs::path& file, const CheckpointOptions& options) {
  Checkpoint checkpoint;
  checkpoint.place_ = file.string();
  checkpoint.read(file, options);
  return checkpoint;
}

void Checkpoint::read_shards(const fs::path& index, const CheckpointOptions& options) {
  const std::map<std::string, std::string> map = read_index(index);
  std::set<std::string> shards;
  for (const auto& [name, shard] : map) shards.insert(shard);
  for (const std::string& shard : shards) {
    const fs::path file = index.parent_path() / shard;
    if (!is_there(file)) fail("{}: names {}, which is not there", index.string(), printable(shard));
    read(file, options);
  }
  for (const auto& [name, shard] : map) {
    const StoredTensor* tensor = find(name);
    if (tensor == nullptr) fail("{}: tensor {} is in none of the files", index.string(), printable(name));
    if (const fs::path file = index.parent_path() / shard; tensor->file != file.string())
      fail("{}: tensor {} should be in {}, but is in {}", index.string(), printable(name), shard, tensor->file);
  }
}

void Checkpoint::read(const fs::path& file, const CheckpointOptions& options) {
  files_.push_back(std::make_unique<MappedFile>(file, options.mode));
  SafetensorsContents contents = parse_safetensors(files_.back()->bytes(), file.string());
  if (options.lock) files_.back()->lock();
  for (StoredTensor& tensor : contents.tensors) {
    const std::string name = tensor.name;
    const auto [at, inserted] = tensors_.try_emplace(name, std::move(tensor));
    if (!inserted) fail("{}: tensor {} is stored in {} too", file.string(), printable(name), at->second.file);
  }
  metadata_.merge(contents.metadata);
}

const StoredTensor* Checkpoint::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const StoredTensor& Checkpoint::at(const std::string& name) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) fail("{}: tensor {} is missing", place_, printable(name));
  return *tensor;
}

}  // namespace braid
