#include "training/cuda/cublas_products.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/log.hpp"

namespace gleaner::cuda {
namespace {

class CublasProducts final : public Products {
 public:
  CublasProducts(const CublasCalls& calls, CublasCalls::Handle handle, void* workspace)
      : calls_(calls), handle_(handle), workspace_(workspace) {}
  CublasProducts(const CublasProducts&) = delete;
  CublasProducts& operator=(const CublasProducts&) = delete;
  ~CublasProducts() override {
    if (const auto code = calls_.destroy(handle_); code != 0) log_debug("cuBLAS: {}", calls_.describe(code));
  }

  std::string_view name() const override { return "cuBLAS"; }
  bool knows_counts() const override { return false; }

  // A row-major matrix is the transposed of a column-major one: the right one comes first.
  Status multiply(Stream stream, const Wave& wave, const Product& product) override {
    // A stream takes the workspace away, so that it is given again.
    if (stream != stream_) {
      GLEANER_TRY(done(calls_.set_stream(handle_, stream)));
      GLEANER_TRY(done(calls_.set_workspace(handle_, workspace_, kCublasWorkspaceBytes)));
      stream_ = stream;
    }
    const Matrix& left = product.left;
    const Matrix& right = product.right;
    const auto rows = static_cast<int>(product.rows);
    const auto columns = static_cast<int>(product.columns);
    const auto inner = static_cast<int>(product.inner);
    const auto operation = [](const Matrix& matrix) {
      return matrix.transposed != 0 ? CublasCalls::transposed : CublasCalls::as_stored;
    };
    return done(calls_.multiply_strided(
        handle_, operation(right), operation(left), columns, rows, inner, &product.scale, right.values.first,
        right.transposed != 0 ? inner : columns, static_cast<long long>(right.values.stride), left.values.first,
        left.transposed != 0 ? rows : inner, static_cast<long long>(left.values.stride), &product.keep,
        product.result.first, columns, static_cast<long long>(product.result.stride), static_cast<int>(wave.devices)));
  }

 private:
  Status done(CublasCalls::Code code) const {
    if (code == 0) return {};
    return fail(ErrorCode::fatal, fmt::format("cuBLAS failed while multiplying: {}", calls_.describe(code)));
  }

  CublasCalls calls_;
  CublasCalls::Handle handle_;
  void* workspace_;
  Stream stream_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Products>> cublas_products(const CublasCalls& calls, void* workspace) {
  CublasCalls::Handle handle = nullptr;
  if (const auto code = calls.create(&handle); code != 0) {
    return fail(ErrorCode::fatal, fmt::format("cuBLAS cannot be used: {}", calls.describe(code)));
  }
  return std::make_unique<CublasProducts>(calls, handle, workspace);
}

}  // namespace gleaner::cuda
