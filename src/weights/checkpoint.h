// A Hugging Face style checkpoint folder as names, dtypes, shapes and bytes, without interpretation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "weights/safetensors.h"

namespace braid {

struct CheckpointOptions {
  MappedFile::Mode mode = MappedFile::Mode::Map;
  bool lock = false;  // keep the pages in memory
};

// Reading is safe from any thread once it is open.
class Checkpoint {
 public:
  // Opens model.safetensors, else the shards that model.safetensors.index.json names, else the folder's only
  // *.safetensors file. Links are followed. An Input error names the file (and tensor) for whatever parse_safetensors
  // refuses, a missing shard, a tensor stored twice, an index that names what no shard holds, several files without an
  // index.
  explicit Checkpoint(const std::filesystem::path& folder, const CheckpointOptions& options = {});
  // One safetensors file, whatever its name.
  static Checkpoint open_file(const std::filesystem::path& file, const CheckpointOptions& options = {});

  const StoredTensor* find(const std::string& name) const;  // null: not there
  const StoredTensor& at(const std::string& name) const;    // an Input error that names folder and tensor
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& place() const { return place_; }  // folder or file, for messages

 private:
  Checkpoint() = default;
  void read(const std::filesystem::path& file, const CheckpointOptions& options);
  void read_shards(const std::filesystem::path& index, const CheckpointOptions& options);
  std::string place_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace braid
