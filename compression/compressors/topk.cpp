// The k largest magnitudes, of the whole model or of every tensor.

#include <algorithm>
#include <numeric>

#include "common/check.hpp"
#include "compression/compressors/compressors.hpp"

namespace gleaner {
namespace {

class TopK final : public Compressor {
 public:
  TopK(std::vector<std::uint32_t> groups, const KernelTable& kernels) : groups_(std::move(groups)), kernels_(kernels) {}

  std::string_view name() const override { return "topk"; }

  Status select(std::span<const float> update, std::span<const float> tracked, std::span<float> candidate,
                MemoryKind memory, std::uint32_t k, Selection& out) const override {
    const CandidateParts parts = {update, tracked, candidate, memory};
    GLEANER_TRY(check_candidate(parts));
    if (groups_.empty()) {
      form_and_select(kernels_, parts, k, out);
    } else {
      select_by_group(parts, k, out);
    }
    return {};
  }

 private:
  // The squared norm is summed group by group, in their order; the threshold is the least of the groups'.
  void select_by_group(const CandidateParts& parts, std::uint32_t k, Selection& out) const {
    GLEANER_CHECK(std::accumulate(groups_.begin(), groups_.end(), std::uint64_t{0}) == parts.candidate.size());
    const std::vector<std::uint32_t> shares = share_out(k, groups_);
    out = {};
    Selection of_group;
    std::uint32_t offset = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      form_and_select(kernels_, parts.part(offset, groups_[g]), shares[g], of_group);
      if (!of_group.indices.empty()) {
        out.threshold = out.indices.empty() ? of_group.threshold : std::min(out.threshold, of_group.threshold);
      }
      for (const std::uint32_t index : of_group.indices) out.indices.push_back(offset + index);
      out.values.insert(out.values.end(), of_group.values.begin(), of_group.values.end());
      out.squared_norm += of_group.squared_norm;
      offset += groups_[g];
    }
  }

  std::vector<std::uint32_t> groups_;  // empty: the whole model is one
  const KernelTable& kernels_;
};

}  // namespace

std::unique_ptr<Compressor> make_topk(const CompressorOptions& options, const Grouping& tensors,
                                      const KernelTable& kernels) {
  return std::make_unique<TopK>(options.per_tensor ? tensors.sizes : std::vector<std::uint32_t>{}, kernels);
}

}  // namespace gleaner
