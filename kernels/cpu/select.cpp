// Exact top-k in one pass: a bound below the k-th magnitude comes from the last round or from a sample, scan() collects
// what lies above it, and the cut is made among those. When too many come, the k best so far are kept and the bound
// rises; when a bound was too high, which shows in the cut, the vector is scanned again.

#include <memory>
#include <utility>

#include "common/check.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/cut.hpp"
#include "kernels/cpu/scan.hpp"

namespace gleaner::cpu {
namespace {

constexpr std::size_t kIndexMax = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kPartMin = std::size_t{1} << 16;  // entries for which another thread is worth while

// Where there are at least k candidates, keeps the k best of them, as the definition orders them. Returns the least.
template <class Bits, class T>
Bits keep_best(Candidates<T>& candidates, const Cut<Bits>& cut) {
  std::uint32_t tie_limit = std::numeric_limits<std::uint32_t>::max();
  if (cut.ties < cut.all_ties) {
    std::size_t left = cut.ties;
    for (std::size_t j = 0;; ++j) {
      if (magnitude_of(candidates.stored[j]) != cut.threshold || --left > 0) continue;
      tie_limit = candidates.indices[j];
      break;
    }
  }
  keep_reaching(candidates, cut.threshold, tie_limit);
  return cut.threshold;
}

// How many candidates are kept before the best are looked for: more than a sample lets through as a rule.
std::size_t capacity_for(std::size_t k, std::size_t entries) { return std::min(entries, k + k / 2) + 2 * kScanBlock; }

// Memory for candidates, which is not touched before it is needed.
template <class T>
class Room {
 public:
  Room(std::size_t k, std::size_t entries)
      : capacity_(capacity_for(k, entries)),
        indices_(std::make_unique_for_overwrite<std::uint32_t[]>(capacity_ + kCandidateSlack)),
        stored_(std::make_unique_for_overwrite<T[]>(capacity_ + kCandidateSlack)) {}

  Candidates<T> candidates() {
    return {.indices = indices_.get(), .stored = stored_.get(), .count = 0, .capacity = capacity_};
  }

 private:
  std::size_t capacity_;
  std::unique_ptr<std::uint32_t[]> indices_;
  std::unique_ptr<T[]> stored_;
};

// Zeros are selected among floats when nothing else is left, and never among integers.
template <class Bits>
constexpr Bits kLeast = sizeof(Bits) == sizeof(std::uint32_t) ? 0 : 1;

void set_above(FloatScan& scan, std::uint32_t bound) { scan.above = static_cast<std::int32_t>(bound - 1); }
void set_above(IntegerScan& scan, std::uint64_t bound) { scan.above = bound - 1; }

std::uint32_t bound_of(const FloatScan& scan) { return static_cast<std::uint32_t>(scan.above) + 1; }
std::uint64_t bound_of(const IntegerScan& scan) { return scan.above + 1; }

std::uint32_t magnitude_at(const FloatScan& scan, std::size_t i) {
  switch (scan.form) {
    case Form::as_is: return magnitude_bits(scan.x[i]);
    case Form::accumulate: return magnitude_bits(scan.formed[i] + scan.update[i]);
    case Form::subtract: return magnitude_bits(scan.update[i] - scan.tracked[i]);
  }
  return 0;
}
std::uint64_t magnitude_at(const IntegerScan& scan, std::size_t i) { return magnitude_bits(scan.x[i]); }

// Scans a part to its end for magnitudes from `bound` on. `assumed` is the largest bound that was a guess: what is
// smaller may be missing.
template <class Bits, class Scan>
void scan_part(Scan& part, std::size_t k, Bits bound, Bits& assumed, bool may_guess) {
  set_above(part, bound);
  assumed = bound;
  while (true) {
    scan(part);
    if (part.next == part.end) return;
    const Cut<Bits> cut = cut_of<Bits>(std::span(&std::as_const(part.found), 1), k, bound, part.most);
    // Later entries must be larger than the k-th so far: ties go to the lower index.
    Bits raised = std::max(bound_of(part), static_cast<Bits>(keep_best(part.found, cut) + 1));
    if (may_guess) {
      const Bits guess =
          sampled_bound<Bits>(part.next, part.end - part.next, k, [&](std::size_t i) { return magnitude_at(part, i); });
      if (guess > raised) assumed = raised = guess;
    }
    set_above(part, raised);
  }
}

// Runs visit(i) for every part, on the caller's threads where it lent some.
template <class Visit>
void for_each_part(std::size_t parts, const Parallel* parallel, Visit visit) {
  if (parts > 1) return parallel->run(parts, visit);
  visit(0);
}

template <class Bits>
struct Found {
  Cut<Bits> cut;  // no ties: everything found belongs to the selection
  bool complete = false;
};

// One attempt: the parts' scans, then the cut over what they found.
template <class Bits, class Scan>
Found<Bits> attempt(std::vector<Scan>& parts, std::size_t k, Bits bound, bool may_guess, const Parallel* parallel) {
  bound = std::max(bound, kLeast<Bits>);
  std::vector<Bits> assumed(parts.size());
  for_each_part(parts.size(), parallel,
                [&](std::size_t i) { scan_part<Bits>(parts[i], k, bound, assumed[i], may_guess); });
  std::vector<decltype(Scan::found)> lists;
  std::size_t count = 0;
  Bits most = 0;
  for (const Scan& part : parts) {
    lists.push_back(part.found);
    count += part.found.count;
    most = std::max(most, part.most);
  }
  const Bits guessed = *std::max_element(assumed.begin(), assumed.end());
  if (count < k) return {.cut = {}, .complete = guessed == kLeast<Bits>};
  const Cut<Bits> cut = cut_of<Bits>(std::span(std::as_const(lists)), k, bound, most);
  return {.cut = cut, .complete = cut.threshold >= guessed};
}

// The parts' candidates become the selection; returns its threshold. `again` makes a part ready for another scan of
// what it has formed.
template <class Bits, class Scan, class Again>
Bits select_best(std::vector<Scan>& parts, std::size_t dimension, std::size_t k, Bits hint, const Parallel* parallel,
                 Again again) {
  const auto sampled = [&] {
    return sampled_bound<Bits>(0, dimension, k, [&](std::size_t i) { return magnitude_at(parts.front(), i); });
  };
  Found<Bits> found = attempt<Bits>(parts, k, hint > 0 ? hint : sampled(), true, parallel);
  if (!found.complete && hint > 0) {
    for (Scan& part : parts) again(part);
    found = attempt<Bits>(parts, k, sampled(), true, parallel);
  }
  if (!found.complete) {
    for (Scan& part : parts) again(part);
    found = attempt<Bits>(parts, k, 0, false, parallel);
  }
  GLEANER_CHECK(found.complete);
  Cut<Bits> left = found.cut;
  if (left.ties == 0) return 0;
  // The first parts have the lower indices and get their ties first.
  for (Scan& part : parts) {
    Cut<Bits> here = left;
    if (parts.size() > 1) {
      const std::span stored(part.found.stored, part.found.count);
      here.all_ties = static_cast<std::size_t>(
          std::ranges::count_if(stored, [&](auto entry) { return magnitude_of(entry) == left.threshold; }));
      here.ties = std::min(here.all_ties, left.ties);
    }
    if (here.ties > 0) {
      keep_best(part.found, here);
    } else {
      keep_reaching(part.found, static_cast<Bits>(left.threshold + 1), std::numeric_limits<std::uint32_t>::max());
    }
    left.ties -= here.ties;
  }
  return found.cut.threshold;
}

void select_all(std::span<const float> x, Selection& out) {
  out.indices.resize(x.size());
  out.values.assign(x.begin(), x.end());
  std::uint32_t least = x.empty() ? 0 : kInfinityBits;
  for (std::size_t i = 0; i < x.size(); ++i) {
    out.indices[i] = static_cast<std::uint32_t>(i);
    least = std::min(least, magnitude_bits(x[i]));
  }
  out.threshold = std::bit_cast<float>(least);
}

// A little below the last threshold, so that a slow drift of it is no miss.
std::uint32_t bound_from(float hint) {
  const float lowered = hint * 0.96875F;
  return lowered > 0.0F && lowered < std::numeric_limits<float>::infinity() ? magnitude_bits(lowered) : 0;
}

std::vector<FloatScan> cut_in_parts(const FloatScan& whole, const Parallel* parallel) {
  const std::size_t dimension = whole.end;
  std::size_t count = 1;
  if (parallel != nullptr) count = std::clamp<std::size_t>(dimension / kPartMin, 1, std::max(1U, parallel->width));
  const std::size_t blocks = (dimension + kScanBlock - 1) / kScanBlock;
  std::vector<FloatScan> parts(count, whole);
  for (std::size_t p = 0; p < count; ++p) {
    parts[p].next = p * blocks / count * kScanBlock;
    parts[p].end = std::min(dimension, (p + 1) * blocks / count * kScanBlock);
  }
  return parts;
}

// The selection itself is the memory for the candidates of the first part, and is all there is without threads.
std::vector<Room<float>> make_room(std::vector<FloatScan>& parts, std::size_t k, Selection& out) {
  const std::size_t capacity = capacity_for(k, parts[0].end - parts[0].next);
  out.indices.resize(capacity + kCandidateSlack);
  out.values.resize(capacity + kCandidateSlack);
  parts[0].found = {.indices = out.indices.data(), .stored = out.values.data(), .count = 0, .capacity = capacity};
  std::vector<Room<float>> rooms;
  for (std::size_t p = 1; p < parts.size(); ++p) {
    rooms.emplace_back(k, parts[p].end - parts[p].next);
    parts[p].found = rooms.back().candidates();
  }
  return rooms;
}

void gather(const std::vector<FloatScan>& parts, std::size_t k, Selection& out) {
  out.indices.resize(k);
  out.values.resize(k);
  std::size_t at = parts[0].found.count;
  for (std::size_t p = 1; p < parts.size(); ++p) {
    const Candidates<float>& found = parts[p].found;
    std::copy_n(found.indices, found.count, out.indices.begin() + static_cast<std::ptrdiff_t>(at));
    std::copy_n(found.stored, found.count, out.values.begin() + static_cast<std::ptrdiff_t>(at));
    at += found.count;
  }
}

void select_formed(const FloatScan& whole, std::span<const float> x, std::uint32_t k, Selection& out) {
  GLEANER_CHECK(x.size() <= kIndexMax);
  out.threshold = 0.0F;
  out.squared_norm = 0.0;
  out.non_finite_index = Selection::kAllFinite;

  const bool some = k > 0 && k < x.size();
  std::vector<double> block_norms((x.size() + kNormBlock - 1) / kNormBlock);
  std::vector<FloatScan> parts = cut_in_parts(whole, out.parallel);
  for (FloatScan& part : parts) part.block_norms = block_norms.data();
  const std::vector<Room<float>> rooms = make_room(parts, some ? k : 0, out);
  std::uint32_t threshold = 0;
  if (some) {
    const std::vector<FloatScan> fresh = parts;
    const auto again = [&](FloatScan& part) {
      part.form = Form::as_is;
      part.block_norms = nullptr;
      part.found.count = 0;
      part.next = fresh[static_cast<std::size_t>(&part - parts.data())].next;
    };
    threshold = select_best<std::uint32_t>(parts, x.size(), k, bound_from(out.threshold_hint), out.parallel, again);
  } else {
    for_each_part(parts.size(), out.parallel, [&](std::size_t i) {
      parts[i].above = std::numeric_limits<std::int32_t>::max();
      scan(parts[i]);
    });
  }
  for (const FloatScan& part : parts) out.non_finite_index = std::min(out.non_finite_index, part.non_finite);
  if (out.non_finite_index != Selection::kAllFinite) {
    out.indices.clear();
    out.values.clear();
    return;
  }
  for (const double norm : block_norms) out.squared_norm += norm;
  if (k >= x.size()) return select_all(x, out);
  out.threshold = std::bit_cast<float>(threshold);
  gather(parts, k, out);
}

}  // namespace

void select(std::span<const float> x, std::uint32_t k, Selection& out) {
  select_formed({.x = x.data(), .end = x.size()}, x, k, out);
}

void accumulate_and_select(std::span<const float> update, std::span<float> residual, std::uint32_t k, Selection& out) {
  GLEANER_CHECK(update.size() == residual.size());
  select_formed({.form = Form::accumulate,
                 .x = residual.data(),
                 .formed = residual.data(),
                 .update = update.data(),
                 .end = residual.size()},
                residual, k, out);
}

void subtract_and_select(std::span<const float> update, std::span<const float> tracked, std::span<float> candidate,
                         std::uint32_t k, Selection& out) {
  GLEANER_CHECK(update.size() == candidate.size() && tracked.size() == candidate.size());
  select_formed({.form = Form::subtract,
                 .x = candidate.data(),
                 .formed = candidate.data(),
                 .update = update.data(),
                 .tracked = tracked.data(),
                 .end = candidate.size()},
                candidate, k, out);
}

void select_integers(std::span<const std::int64_t> x, std::uint32_t k, std::vector<std::uint32_t>& indices) {
  GLEANER_CHECK(x.size() <= kIndexMax);
  indices.clear();
  if (k == 0) return;
  if (k >= x.size()) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] != 0) indices.push_back(static_cast<std::uint32_t>(i));
    }
    return;
  }
  Room<std::uint64_t> room(k, x.size());
  std::vector<IntegerScan> parts(1);
  parts[0] = {.x = x.data(), .end = x.size(), .found = room.candidates()};
  const auto again = [](IntegerScan& part) {
    part.found.count = 0;
    part.next = 0;
  };
  select_best<std::uint64_t>(parts, x.size(), k, 0, nullptr, again);
  const Candidates<std::uint64_t>& found = parts[0].found;
  for (std::size_t j = 0; j < found.count; ++j) {
    if (found.stored[j] != 0) indices.push_back(found.indices[j]);
  }
}

}  // namespace gleaner::cpu
