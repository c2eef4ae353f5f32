// SPDX-License-Identifier: Apache-2.0
#include "weights/quantization.h"

#include <algorithm>
#include <regex>

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
  if (!config.is_object()) fail("expected an object, found {}", config.type_name());
  if (const auto at = config.find(key); at != config.end() && !at->is_null()) return &*at;
  if (const auto text = config.find("text_config"); text != config.end() && text->is_object())
    if (const auto at = text->find(key); at != text->end() && !at->is_null()) return &*at;
  return nullptr;
}

DType read_dtype(const Json& config) {
  const char* key = setting(config, "dtype") != nullptr ? "dtype" : "torch_dtype";
  const Json* value = setting(config, key);
  if (value == nullptr) return DType::BF16;
  std::string name = value->is_string() ? value->get<std::string>() : value->dump();
  if (name.starts_with("torch.")) name.erase(0, 6);
  if (name == "bfloat16" || name == "auto") return DType::BF16;
  if (name == "float16") return DType::F16;
  if (name == "float32") return DType::F32;
  fail("{}: expected bfloat16, float16 or float32, found {}", key, printable(name));
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
    fail("quantization_config.weight_block_size: expected two numbers, found {}", printable(stored.dump()));
  for (const Json& size : stored)
    if (!size.is_number_integer() || size < 1 || size > kLargestBlock)
      fail("quantization_config.weight_block_size: expected numbers from 1 to {}, found {}", kLargestBlock,
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

bool names_module(std::string_view entry, std::string_view module) {
  if (entry.starts_with("re:"))
    return std::regex_search(module.begin(), module.end(), std::regex(entry.begin() + 3, entry.end()),
                             std::regex_constants::match_continuous);
  if (module.size() <= entry.size()) return module == entry;
  const size_t rest = module.size() - entry.size();
  return (module.starts_with(entry) && module[entry.size()] == '.') ||
         (module.ends_with(entry) && module[rest - 1] == '.');
}

void read_exempt(const Json& settings, const char* key, std::vector<std::string>& out) {
  const auto list = settings.find(key);
  if (list == settings.end() || list->is_null()) return;
  if (!list->is_array()) fail("quantization_config.{}: expected a list", key);
  for (const Json& name : *list) {
    if (!name.is_string()) fail("quantization_config.{}: expected a list of names", key);
    out.push_back(without_text_level(name.get<std::string>()));
    try {
      names_module(out.back(), "");
    } catch (const std::regex_error&) {
      fail("quantization_config.{}: {} is no regular expression", key, printable(out.back()));
    }
  }
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

// One f32 scale a row, or one for all.
void check_row_scales(const StoredMatrix& matrix) {
  const StoredTensor& scales = *matrix.scales;
  if (!is_float(scales.dtype))
    fail("{}: scales of type {} are not supported for rows", printable(scales.name), scales.type);
  if (scales.elements() != 1 && scales.elements() != matrix.stacked_rows())
    fail("{}: scales for {}: expected one, or one for each of {} rows, found {}", printable(scales.name),
         describe_shape(matrix.weight->shape), matrix.stacked_rows(), describe_shape(scales.shape));
}

Format nvfp4_of(const StoredMatrix& matrix) {
  const StoredTensor &scales = *matrix.scales, &multiplier = *matrix.multiplier;
  if (scales.dtype != DType::E4M3)
    fail("{}: scales of groups of type {}: expected F8_E4M3", printable(scales.name), scales.type);
  const int64_t columns = matrix.columns();
  std::vector<int64_t> expected = matrix.weight->shape;
  if (!expected.empty()) expected.back() = columns / Nvfp4::kGroup;
  if (columns % Nvfp4::kGroup != 0 || scales.shape != expected)
    fail("{}: scale grid for {} of two codes a byte in groups of {}: expected {}, found {}", printable(scales.name),
         describe_shape(matrix.weight->shape), Nvfp4::kGroup, describe_shape(expected), describe_shape(scales.shape));
  const int64_t stacked = matrix.rows() == 0 ? 0 : matrix.stacked_rows() / matrix.rows();
  if (multiplier.dtype != DType::F32 || (multiplier.elements() != 1 && multiplier.elements() != stacked))
    fail("{}: expected one F32 number, or one for each of {} matrices, found {} {}", printable(multiplier.name),
         stacked, multiplier.type, describe_shape(multiplier.shape));
  return Nvfp4{};
}

// What is quantised is stored in, as far as `quantization_config` says. `seen` tells of a tensor that shows another
// coding.
Format read_format(const Json& settings, const std::string& seen) {
  const auto text = [&](const char* key) {
    const auto found = settings.find(key);
    return found == settings.end() || found->is_null() ? "(none)" : found->dump();
  };
  const std::string method = text("quant_method");
  constexpr std::string_view kKnown =
      "weights in bf16, f16, f32, fp8 (in blocks, by row or by tensor), int8 by row and NVFP4 can: take the original "
      "checkpoint, or convert this one to one of these";
  if (method == "\"fp8\"") return Fp8Block{};
  if (method == "\"compressed-tensors\"") {
    const std::string format = text("format");
    if (format == "\"float-quantized\"" || format == "\"naive-quantized\"") return Fp8Row{};
    if (format == "\"int-quantized\"") return Int8Row{};
    if (format == "\"nvfp4-pack-quantized\"" || format == "\"mixed-precision\"") return Nvfp4{};
    fail("quantization_config.format {} cannot be loaded; {}{}", printable(format), kKnown, seen);
  }
  if (method == "\"modelopt\"") {
    const std::string algorithm = text("quant_algo");
    if (algorithm == "\"FP8\"") return Fp8Row{};
    if (algorithm == "\"NVFP4\"" || algorithm == "\"W4A16_NVFP4\"" || algorithm == "\"MIXED_PRECISION\"")
      return Nvfp4{};
    fail("quantization_config.quant_algo {} cannot be loaded; {}{}", printable(algorithm), kKnown, seen);
  }
  fail("quantization_config.quant_method {} cannot be loaded; {}{}", printable(method), kKnown, seen);
}

}  // namespace

Quantization read_quantization(const Json& config, const Checkpoint* checkpoint) {
  Quantization out;
  out.dtype = read_dtype(config);
  const Json* settings = setting(config, "quantization_config");
  if (settings == nullptr) settings = setting(config, "compression_config");
  if (settings == nullptr) return out;
  if (!settings->is_object()) fail("quantization_config: expected an object");
  out.coded = read_format(*settings, telltale(checkpoint));
  if (const auto fmt = settings->find("fmt"); fmt != settings->end() && *fmt != "e4m3" && !fmt->is_null())
    fail("quantization_config.fmt: expected e4m3, found {}", printable(fmt->dump()));
  if (const auto block = settings->find("weight_block_size"); block != settings->end() && !block->is_null()) {
    read_block(*block, out);
    if (std::holds_alternative<Fp8Block>(*out.coded)) out.coded = *out.block;
  }
  if (const auto format = settings->find("scale_fmt"); format != settings->end() && !format->is_null()) {
    if (!format->is_string())
      fail("quantization_config.scale_fmt: expected a name, found {}", printable(format->dump()));
    out.power_scales = *format == "ue8m0";
  }
  for (const char* key : {"modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules"})
    read_exempt(*settings, key, out.exempt);
  return out;
}

Format Quantization::expected(const std::string& module) const {
  const Dense plain{dtype};
  if (!coded) return plain;
  const std::string name = without_text_level(module);
  const std::string last = name.substr(name.rfind('.') + 1);
  if (last == "lm_head" || last.starts_with("embed")) return plain;
  for (const std::string& entry : exempt)
    if (names_module(entry, name)) return plain;
  return *coded;
}

int64_t StoredMatrix::columns() const {
  const int64_t stored = weight->shape.empty() ? 1 : weight->shape.back();
  return weight->dtype == DType::U8 ? 2 * stored : stored;  // two codes a byte
}

int64_t StoredMatrix::rows() const {
  const std::vector<int64_t>& shape = weight->shape;
  return shape.size() < 2 ? 1 : shape[shape.size() - 2];
}

int64_t StoredMatrix::stacked_rows() const {
  const int64_t stored = weight->shape.empty() ? 1 : weight->shape.back();
  return stored == 0 ? 0 : weight->elements() / stored;
}

StoredMatrix find_matrix(const Checkpoint& checkpoint, const std::string& module) {
  if (const StoredTensor* weight = checkpoint.find(module + ".weight")) {
    const StoredTensor* blocks = checkpoint.find(module + ".weight_scale_inv");
    return {.weight = weight,
            .scales = blocks != nullptr ? blocks : checkpoint.find(module + ".weight_scale"),
            .multiplier = checkpoint.find(module + ".weight_scale_2")};
  }
  if (const StoredTensor* weight = checkpoint.find(module + ".weight_packed"))
    return {.weight = weight,
            .scales = checkpoint.find(module + ".weight_scale"),
            .multiplier = checkpoint.find(module + ".weight_global_scale"),
            .divides = true};
  if (const StoredTensor* weight = checkpoint.find(module))
    return {.weight = weight, .scales = checkpoint.find(module + "_scale_inv")};
  const auto near = checkpoint.tensors().lower_bound(module + ".");
  if (near != checkpoint.tensors().end() && near->first.starts_with(module + "."))
    fail("{}: tensor {}.weight is missing; there is {} ({}), a coding that is not supported", checkpoint.place(),
         printable(module), printable(near->first), near->second.type);
  fail("{}: tensor {}.weight is missing", checkpoint.place(), printable(module));
}

std::vector<std::string> companions(const std::string& module) {
  std::vector<std::string> all;
  for (const char* ending :
       {".weight_scale_inv", ".weight_scale", ".weight_scale_2", ".weight_global_scale", ".activation_scale",
        ".input_scale", ".input_global_scale", "_scale_inv", "_activation_scale"})
    all.push_back(module + ending);
  return all;
}

Format recognise(const StoredMatrix& matrix, const Quantization& quantization) {
  const StoredTensor& weight = *matrix.weight;
  if (is_float(weight.dtype)) {
    if (matrix.scales != nullptr)
      fail("{}: is {}, yet {} gives it scales", printable(weight.name), weight.type, printable(matrix.scales->name));
    return Dense{weight.dtype};
  }
  if (weight.dtype == DType::U8 && matrix.scales != nullptr && matrix.multiplier != nullptr) return nvfp4_of(matrix);
  if (weight.dtype == DType::I8 && matrix.scales != nullptr) {
    check_row_scales(matrix);
    return Int8Row{};
  }
  if (weight.dtype != DType::E4M3)
    fail(
        "{}: weights of type {} are not supported without their scales (BF16, F16, F32, and F8_E4M3, I8 and NVFP4 with "
        "scales are)",
        printable(weight.name), weight.type);
  if (matrix.scales == nullptr)
    fail("{}: is {} without a scale for each block ({}_scale_inv) or row ({}_scale)", printable(weight.name),
         weight.type, printable(weight.name), printable(weight.name));
  const int64_t scales = matrix.scales->elements();
  if (matrix.scales->name.ends_with("_scale") && (scales == 1 || scales == matrix.stacked_rows())) {
    check_row_scales(matrix);
    return Fp8Row{};
  }
  check_scale_type(*matrix.scales, quantization);
  return block_of(matrix, quantization);
}

}  // namespace braid
