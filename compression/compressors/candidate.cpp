#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "common/check.hpp"
#include "compression/compressors/compressors.hpp"

namespace gleaner {
namespace {

// The first index at which value_at is not finite, or n. The common case is one pass without a branch an entry.
template <class ValueAt>
std::size_t first_non_finite(std::size_t n, ValueAt value_at) {
  std::uint32_t carry = 0;  // the sign bit is set once an exponent was all ones
  for (std::size_t i = 0; i < n; ++i) {
    carry |= (std::bit_cast<std::uint32_t>(value_at(i)) & 0x7fffffffU) + 0x00800000U;
  }
  if ((carry >> 31) == 0) return n;
  std::size_t i = 0;
  while (std::isfinite(value_at(i))) ++i;
  return i;
}

// Largest key first, ties to the lower index.
template <class Keys>
void sort_descending(std::vector<std::uint32_t>& order, const Keys& keys) {
  std::ranges::sort(order,
                    [&](std::uint32_t a, std::uint32_t b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; });
}

}  // namespace

Status check_candidate(const CandidateParts& parts) {
  const std::size_t n = parts.candidate.size();
  GLEANER_CHECK(parts.update.size() == n);
  GLEANER_CHECK(parts.tracked.size() == (parts.memory == MemoryKind::tracked ? n : 0));
  const float* update = parts.update.data();
  const float* tracked = parts.tracked.data();
  const float* residual = parts.candidate.data();
  std::size_t bad = n;
  switch (parts.memory) {
    case MemoryKind::none: bad = first_non_finite(n, [=](std::size_t i) { return update[i]; }); break;
    case MemoryKind::residual: bad = first_non_finite(n, [=](std::size_t i) { return residual[i] + update[i]; }); break;
    case MemoryKind::tracked: bad = first_non_finite(n, [=](std::size_t i) { return update[i] - tracked[i]; }); break;
  }
  if (bad == n) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("coordinate {} of the update is {}, which with the memory is not a finite number: training "
                          "diverged; lower the learning rate or clip the gradients",
                          bad, update[bad]));
}

void form_and_select(const KernelTable& kernels, const CandidateParts& parts, std::uint32_t k, Selection& out) {
  switch (parts.memory) {
    case MemoryKind::none:
      std::ranges::copy(parts.update, parts.candidate.begin());
      kernels.select(parts.candidate, k, out);
      break;
    case MemoryKind::residual: kernels.accumulate_and_select(parts.update, parts.candidate, k, out); break;
    case MemoryKind::tracked: kernels.subtract_and_select(parts.update, parts.tracked, parts.candidate, k, out); break;
  }
  GLEANER_CHECK(out.non_finite_index == Selection::kAllFinite);  // check_candidate came before
}

std::vector<std::uint32_t> share_out(std::uint32_t k, std::span<const std::uint32_t> sizes) {
  std::vector<std::uint32_t> shares(sizes.size());
  std::vector<std::uint32_t> order;  // tensors with entries, in the order in which they get what is left over
  std::uint64_t total = 0;
  for (std::uint32_t t = 0; t < sizes.size(); ++t) {
    total += sizes[t];
    if (sizes[t] > 0) order.push_back(t);
  }
  const std::uint64_t tensors = order.size();
  if (k < tensors) {
    sort_descending(order, sizes);
    for (std::uint32_t j = 0; j < k; ++j) shares[order[j]] = 1;
    return shares;
  }
  // One each; the rest by largest remainder over what the tensors can still take.
  const std::uint64_t room = total - tensors;
  const std::uint64_t rest = std::min<std::uint64_t>(k, total) - tensors;
  std::uint64_t left = rest;
  std::vector<std::uint64_t> remainders(sizes.size());
  for (const std::uint32_t t : order) {
    const std::uint64_t product = rest * (sizes[t] - 1);
    const std::uint64_t share = room == 0 ? 0 : product / room;
    remainders[t] = room == 0 ? 0 : product % room;
    shares[t] = static_cast<std::uint32_t>(1 + share);
    left -= share;
  }
  sort_descending(order, remainders);
  for (std::uint64_t j = 0; j < left; ++j) ++shares[order[j]];
  return shares;
}

}  // namespace gleaner
