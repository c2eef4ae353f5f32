// SPDX-License-Identifier: Apache-2.0
#include "weights/quantization.h"

#include <algorithm>

#include "base/error.h"

namespace braid {
namespace {

constexpr int kUsualBlock = 128;
constexpr int kLargestBlock = 1 << 20;

// Endings of tensors that only the codings without support have.
constexpr std::string_view kForeignEndings[] = {".qweight", ".qzeros",       ".weight_packed",
                                                ".trellis", ".weight_scale", ".weight_scale_2",
                                                "_blocks",  ".W_q",          ".absmax"};

// The value of `key` at the top of the config or in text_config; null when absent or null.
const Json* setting(const Json& config, const char* key) {
  if (!config.is_object()) fail("config.json: expected an object, found {}", config.type_name());
  if (const auto at = config.find(key); at != config.end() && !at->is_null()) return &*at;
  if (const auto text = config.find("text_config"); text != config.end() && text->is_object())
    if (const auto at = text->find(key); at != text->end() && !at->is_null()) return &*at;
  return nullptr;
}

DType read_dtype(const Json& config) {
  const Json* value = setting(config, "dtype");
  if (value == nullptr) value = setting(config, "torch_dtype");
  if (value == nullptr) return DType::BF16;
  std::string name = value->is_string() ? value->get<std::string>() : value->dump();
  if (name.starts_with("torch.")) name.erase(0, 6);
  if (name == "bfloat16" || name == "auto") return DType::BF16;
  if (name == "float16") return DType::F16;
  if (name == "float32") return DType::F32;
  fail("config.json: dtype: expected bfloat16, float16 or float32, found {}", printable(name));
}

// "; <tensor> is stored in such a coding" for the first tensor that shows it.
std::string telltale(const Checkpoint* checkpoint) {
  if (checkpoint == nullptr) return "";
  for (const auto& [name, tensor] : checkpoint->tensors())
    for (const std::string_view ending : kForeignEndings)
      if (name.ends_with(ending)) return fmt::format("; see tensor {} ({})", printable(name), tensor.type);
  return "";
}

void read_block(const Json& stored, Quantization& out) {
  if (!stored.is_array() || stored.size() != 2)
    fail("config.json: quantization_config.weight_block_size: expected two numbers, found {}",
         printable(stored.dump()));
  for (const Json& size : stored)
    if (!size.is_number_integer() || size < 1 || size > kLargestBlock)
      fail("config.json: quantization_config.weight_block_size: expected numbers from 1 to {}, found {}", kLargestBlock,
           printable(stored.dump()));
  out.block = Fp8Block{stored[0].get<int>(), stored[1].get<int>()};
}

std::string without_text_level(std::string name) {
  constexpr std::string_view kLevel = "language_model.";
  for (size_t at = name.find(kLevel); at != std::string::npos; at = name.find(kLevel, at))
    if (at == 0 || name[at - 1] == '.')
      name.erase(at, kLevel.size());
    else
      ++at;
  return name;
}

void read_exempt(const Json& settings, const char* key, std::vector<std::string>& out) {
  const auto list = settings.find(key);
  if (list == settings.end() || list->is_null()) return;
  if (!list->is_array()) fail("config.json: quantization_config.{}: expected a list", key);
  for (const Json& name : *list) {
    if (!name.is_string()) fail("config.json: quantization_config.{}: expected a list of names", key);
    out.push_back(without_text_level(name.get<std::string>()));
  }
}

bool names_module(std::string_view entry, std::string_view module) {
  if (module.size() <= entry.size()) return module == entry;
  const size_t rest = module.size() - entry.size();
  return (module.starts_with(entry) && module[entry.size()] == '.') ||
         (module.ends_with(entry) && module[rest - 1] == '.');
}

bool is_float(DType type) { return type == DType::F32 || type == DType::BF16 || type == DType::F16; }

// How many blocks cover `count` rows or columns; `count` may be as large as the type allows.
int64_t blocks_of(int64_t count, int64_t block) { return count / block + (count % block != 0 ? 1 : 0); }

// How many rows (or columns) a block has, when `count` of them make `blocks` blocks. 0: no block size explains it.
int64_t block_size(int64_t count, int64_t blocks) {
  if (blocks < 1) return 0;
  if (blocks_of(count, kUsualBlock) == blocks) return kUsualBlock;
  return count % blocks == 0 && count / blocks <= kLargestBlock ? count / blocks : 0;
}

Fp8Block block_of(const StoredMatrix& matrix, const Quantization& quantization) {
  const std::vector<int64_t>& grid = matrix.scales->shape;
  const bool same_rank = grid.size() >= 2 && grid.size() == matrix.weight->shape.size();
  Fp8Block block;
  if (quantization.block) {
    block = *quantization.block;
  } else if (same_rank) {
    block = {static_cast<int>(block_size(matrix.rows(), grid[grid.size() - 2])),
             static_cast<int>(block_size(matrix.columns(), grid.back()))};
  }
  if (block.block_rows < 1 || block.block_columns < 1)
    fail("{}: its scale grid {} does not divide {}", printable(matrix.weight->name), describe_shape(grid),
         describe_shape(matrix.weight->shape));
  std::vector<int64_t> expected = matrix.weight->shape;
  if (expected.size() >= 2) {
    int64_t& rows = expected[expected.size() - 2];
    rows = blocks_of(rows, block.block_rows);
    expected.back() = blocks_of(expected.back(), block.block_columns);
  }
  if (!same_rank || grid != expected)
    fail("{}: scale grid for {} in blocks of {} x {}: expected {}, found {}", printable(matrix.scales->name),
         describe_shape(matrix.weight->shape), block.block_rows, block.block_columns, describe_shape(expected),
         describe_shape(grid));
  return block;
}

void check_scale_type(const StoredTensor& scales, const Quantization& quantization) {
  if (is_float(scales.dtype) || scales.type == "F8_E8M0") return;
  if (scales.dtype == DType::U8 && quantization.power_scales) return;
  fail("{}: scales of type {} are not supported{}", printable(scales.name), scales.type,
       scales.dtype == DType::U8 ? " without scale_fmt 'ue8m0' in quantization_config" : "");
}

}  // namespace

Quantization read_quantization(const Json& config, const Checkpoint* checkpoint) {
  Quantization out;
  out.dtype = read_dtype(config);
  const Json* settings = setting(config, "quantization_config");
  if (settings == nullptr) settings = setting(config, "compression_config");
  if (settings == nullptr) return out;
  if (!settings->is_object()) fail("config.json: quantization_config: expected an object");
  const std::string method = settings->value("quant_method", Json("(none)")).dump();
  if (method != "\"fp8\"")
    fail(
        "config.json: quantization_config.quant_method {} cannot be loaded; weights in bf16, f16, f32 and fp8 in "
        "blocks (quant_method \"fp8\") can: take the original checkpoint, or convert this one to one of these{}",
        printable(method), telltale(checkpoint));
  if (const auto fmt = settings->find("fmt"); fmt != settings->end() && *fmt != "e4m3" && !fmt->is_null())
    fail("config.json: quantization_config.fmt: expected e4m3, found {}", printable(fmt->dump()));
  out.fp8 = true;
  if (const auto block = settings->find("weight_block_size"); block != settings->end() && !block->is_null())
    read_block(*block, out);
  if (const auto format = settings->find("scale_fmt"); format != settings->end()) out.power_scales = *format == "ue8m0";
  read_exempt(*settings, "modules_to_not_convert", out.exempt);
  read_exempt(*settings, "ignored_layers", out.exempt);
  return out;
}

Format Quantization::expected(const std::string& module) const {
  const Dense plain{dtype};
  if (!fp8) return plain;
  const std::string name = without_text_level(module);
  const std::string last = name.substr(name.rfind('.') + 1);
  if (last == "lm_head" || last.starts_with("embed")) return plain;
  for (const std::string& entry : exempt)
    if (names_module(entry, name)) return plain;
  return block.value_or(Fp8Block{});
}

int64_t StoredMatrix::rows() const {
  const std::vector<int64_t>& shape = weight->shape;
  return shape.size() < 2 ? 1 : shape[shape.size() - 2];
}

int64_t StoredMatrix::stacked_rows() const { return columns() == 0 ? 0 : weight->elements() / columns(); }

StoredMatrix find_matrix(const Checkpoint& checkpoint, const std::string& module) {
  if (const StoredTensor* weight = checkpoint.find(module + ".weight"))
    return {.weight = weight, .scales = checkpoint.find(module + ".weight_scale_inv")};
  if (const StoredTensor* weight = checkpoint.find(module))
    return {.weight = weight, .scales = checkpoint.find(module + "_scale_inv")};
  const auto near = checkpoint.tensors().lower_bound(module + ".");
  if (near != checkpoint.tensors().end() && near->first.starts_with(module + "."))
    fail("{}: tensor {}.weight is missing; there is {} ({}), a coding that is not supported", checkpoint.place(),
         printable(module), printable(near->first), near->second.type);
  fail("{}: tensor {}.weight is missing", checkpoint.place(), printable(module));
}

std::vector<std::string> companions(const std::string& module) {
  return {module + ".weight_scale_inv", module + ".activation_scale", module + ".input_scale", module + "_scale_inv",
          module + "_activation_scale"};
}

Format recognise(const StoredMatrix& matrix, const Quantization& quantization) {
  const StoredTensor& weight = *matrix.weight;
  if (is_float(weight.dtype)) {
    if (matrix.scales != nullptr)
      fail("{}: is {}, yet {} gives it scales", printable(weight.name), weight.type, printable(matrix.scales->name));
    return Dense{weight.dtype};
  }
  if (weight.dtype != DType::E4M3)
    fail("{}: weights of type {} are not supported (BF16, F16, F32 and F8_E4M3 in blocks are)", printable(weight.name),
         weight.type);
  if (matrix.scales == nullptr)
    fail("{}: is {} without a scale for each block ({}_scale_inv)", printable(weight.name), weight.type,
         printable(weight.name));
  check_scale_type(*matrix.scales, quantization);
  return block_of(matrix, quantization);
}

}  // namespace braid
