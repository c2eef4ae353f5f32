// A Hugging Face style checkpoint folder as names, dtypes, shapes and bytes, without interpretation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/dtype.h"

namespace braid {

// One stored tensor. `bytes` live as long as the checkpoint.
struct StoredTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::string file;  // for messages

  int64_t elements() const;
};

struct CheckpointOptions {
  MappedFile::Mode mode = MappedFile::Mode::Map;
  bool lock = false;  // keep the pages in memory
};

// Reading is safe from any thread once it is open.
class Checkpoint {
 public:
  // Opens model.safetensors, or the shards that model.safetensors.index.json names. An Input error names the file (and
  // tensor) for: a missing shard, a header that is too long, cut short or not JSON, offsets outside the file,
  // overlapping or of the wrong size for shape and dtype, an unknown dtype, a tensor stored twice, an index that names
  // what no shard holds.
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
  std::string place_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace braid
