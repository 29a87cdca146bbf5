#pragma once
// What the rows of registry.cpp share: their factories and the forming of a candidate.

#include <memory>
#include <span>

#include "compression/compressor.hpp"

namespace gleaner {

std::unique_ptr<Compressor> make_dense(const CompressorOptions& options, const Grouping& tensors,
                                       const KernelTable& kernels);
std::unique_ptr<Compressor> make_topk(const CompressorOptions& options, const Grouping& tensors,
                                      const KernelTable& kernels);

// The inputs of Compressor::select, so that they travel together.
struct CandidateParts {
  std::span<const float> update;
  std::span<const float> tracked;
  std::span<float> candidate;
  MemoryKind memory = MemoryKind::none;

  CandidateParts part(std::size_t offset, std::size_t size) const {
    return {update.subspan(offset, size), tracked.empty() ? tracked : tracked.subspan(offset, size),
            candidate.subspan(offset, size), memory};
  }
};

// An Error that names the first coordinate whose candidate would not be finite. It reads only: a residual survives a
// diverged update.
Status check_candidate(const CandidateParts& parts);

// Forms the candidate and selects on it in one pass.
void form_and_select(const KernelTable& kernels, const CandidateParts& parts, std::uint32_t k, Selection& out);

// k in proportion to the sizes, at least one for every tensor with entries while k lasts (then the largest tensors get
// one); never more than a tensor has. The shares add up to min(k, sum of the sizes).
std::vector<std::uint32_t> share_out(std::uint32_t k, std::span<const std::uint32_t> sizes);

}  // namespace gleaner
