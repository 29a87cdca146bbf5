// Everything is sent: the baseline.

#include <fmt/format.h>

#include "compression/compressors/compressors.hpp"

namespace gleaner {
namespace {

class Dense final : public Compressor {
 public:
  explicit Dense(const KernelTable& kernels) : kernels_(kernels) {}

  std::string_view name() const override { return "dense"; }

  Status select(std::span<const float> update, std::span<const float> tracked, std::span<float> candidate,
                MemoryKind memory, std::uint32_t k, Selection& out) const override {
    if (k < candidate.size()) {
      return fail(
          ErrorCode::bad_input,
          fmt::format("the compressor dense sends all {} entries, but the plan grants {}: use topk, or grant all",
                      candidate.size(), k));
    }
    const CandidateParts parts = {update, tracked, candidate, memory};
    GLEANER_TRY(check_candidate(parts));
    form_and_select(kernels_, parts, k, out);
    return {};
  }

 private:
  const KernelTable& kernels_;
};

}  // namespace

std::unique_ptr<Compressor> make_dense(const CompressorOptions&, const Grouping&, const KernelTable& kernels) {
  return std::make_unique<Dense>(kernels);
}

}  // namespace gleaner
