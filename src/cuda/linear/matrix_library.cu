// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/matrix_library.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <array>
#include <map>

#include "base/log.h"
#include "cuda/common/error.h"

namespace braid::cuda {
namespace {

constexpr size_t kWorkspace = size_t{32} << 20;
constexpr uint32_t kAlignment = 16;  // what callers promise of addresses and rows

void require(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(ErrorKind::Resource, "cuBLASLt: {}: status {}", what, static_cast<int>(status));
}

struct Functions {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Functions& f) {
  return find(library, "cublasLtCreate", f.create) && find(library, "cublasLtDestroy", f.destroy) &&
         find(library, "cublasLtMatmul", f.matmul) && find(library, "cublasLtMatmulAlgoGetHeuristic", f.heuristic) &&
         find(library, "cublasLtMatmulDescCreate", f.create_operation) &&
         find(library, "cublasLtMatmulDescSetAttribute", f.set_operation) &&
         find(library, "cublasLtMatrixLayoutCreate", f.create_layout) &&
         find(library, "cublasLtMatmulPreferenceCreate", f.create_preference) &&
         find(library, "cublasLtMatmulPreferenceSetAttribute", f.set_preference);
}

// Everything about a product but its addresses.
using Shape = std::array<int64_t, 7>;  // the last: the form

// Column-major words for a row-major product: out^T [rows x tokens] = w [rows x columns] * x^T.
struct Recipe {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

class OpenedLibrary final : public MatrixLibrary {
 public:
  OpenedLibrary(const Functions& functions, cudaStream_t stream) : f_(functions), stream_(stream) {
    require(f_.create(&handle_), "opening");
    check(cudaMalloc(&workspace_, kWorkspace), "work memory of cuBLASLt");
  }
  ~OpenedLibrary() override {
    cudaStreamSynchronize(stream_);
    cudaFree(workspace_);
    f_.destroy(handle_);
  }

  void multiply(const MatrixProduct& p) override {
    const Shape shape{p.tokens, p.rows, p.columns, p.out_stride, p.x_stride, p.out_bf16, static_cast<int64_t>(p.form)};
    auto known = recipes_.find(shape);
    if (known == recipes_.end()) known = recipes_.emplace(shape, make(p)).first;
    const Recipe& recipe = known->second;
    set_scales(recipe, p);
    const float one = 1.0f, zero = 0.0f;
    const int32_t whole_one = 1, whole_zero = 0;
    const bool whole = p.form == MatrixForm::Whole;
    const void *by = whole ? static_cast<const void*>(&whole_one) : &one,
               *keep = whole ? static_cast<const void*>(&whole_zero) : &zero;
    require(f_.matmul(handle_, recipe.operation, by, p.w, recipe.w, p.x, recipe.x, keep, p.out, recipe.out, p.out,
                      recipe.out, &recipe.algorithm, workspace_, kWorkspace, stream_),
            "product");
  }

 private:
  void set_scales(const Recipe& recipe, const MatrixProduct& p) const {
    if (p.form != MatrixForm::Blocks && p.form != MatrixForm::Rows) return;
    const bool rows = p.form == MatrixForm::Rows;
    const int32_t w_mode =
        rows ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    const int32_t x_mode = rows ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F : CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    const auto set = [&](cublasLtMatmulDescAttributes_t which, const auto& value) {
      require(f_.set_operation(recipe.operation, which, &value, sizeof(value)), "scales");
    };
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, w_mode), set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, x_mode);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.w_scales), set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.x_scales);
  }

  Recipe make(const MatrixProduct& p) const {
    Recipe recipe;
    const bool whole = p.form == MatrixForm::Whole, plain = p.form == MatrixForm::Plain;
    require(f_.create_operation(&recipe.operation, whole ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
                                whole ? CUDA_R_32I : CUDA_R_32F),
            "operation");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    require(f_.set_operation(recipe.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
            "operation");
    set_scales(recipe, p);
    const cudaDataType type = plain ? CUDA_R_16BF : whole ? CUDA_R_8I : CUDA_R_8F_E4M3;
    const cudaDataType out = whole ? CUDA_R_32I : p.out_bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const auto rows = static_cast<uint64_t>(p.rows), tokens = static_cast<uint64_t>(p.tokens),
               columns = static_cast<uint64_t>(p.columns);
    require(f_.create_layout(&recipe.w, type, columns, rows, p.columns), "layout");
    require(f_.create_layout(&recipe.x, type, columns, tokens, p.x_stride), "layout");
    require(f_.create_layout(&recipe.out, out, rows, tokens, p.out_stride), "layout");
    cublasLtMatmulPreference_t preference = nullptr;
    require(f_.create_preference(&preference), "preference");
    require(f_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace, sizeof(kWorkspace)),
            "preference");
    for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      require(f_.set_preference(preference, which, &kAlignment, sizeof(kAlignment)), "preference");
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    require(f_.heuristic(handle_, recipe.operation, recipe.w, recipe.x, recipe.out, recipe.out, preference, 1, &found,
                         &count),
            "choosing an algorithm");
    if (count == 0)
      fail(ErrorKind::Resource, "cuBLASLt: no algorithm for [{} x {}] times {}", p.rows, p.columns, p.tokens);
    recipe.algorithm = found.algo;
    return recipe;
  }

  Functions f_;
  cudaStream_t stream_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Shape, Recipe> recipes_;
};

}  // namespace

std::unique_ptr<MatrixLibrary> MatrixLibrary::open(cudaStream_t stream) {
  constexpr const char* kNames[] = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"};
  void* library = nullptr;
  for (const char* name : kNames)
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  Functions functions;
  if (library == nullptr || !find_all(library, functions)) {
    log::warn(fmt::format("cuda: {} is not here: wide products are slow", kNames[0]));
    return nullptr;
  }
  return std::make_unique<OpenedLibrary>(functions, stream);
}

}  // namespace braid::cuda
