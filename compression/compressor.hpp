#pragma once
// What a device sends of its update. A compressor picks the entries; the payload format codes them. One algorithm is
// one file and one row of the table in registry.cpp; names are stable on the wire and on disk.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "compression/payload.hpp"
#include "kernels/kernels.hpp"

namespace gleaner {

// How a device remembers what it has not sent.
//   residual: candidate = residual + update; what is sent leaves the residual (error feedback).
//   tracked:  candidate = update - h; what is sent is added to h on both sides (EF21: Richtarik et al. 2021, eq. 4).
//   none:     candidate = update; what is not sent is lost (dense FedAvg loses nothing).
enum class MemoryKind : std::uint8_t { none = 0, residual = 1, tracked = 2 };

struct CompressorOptions {
  bool per_tensor = false;  // k is shared out to the tensors in proportion to their sizes, at least one each
};

class Compressor {
 public:
  virtual ~Compressor() = default;
  virtual std::string_view name() const = 0;

  // Forms the candidate in place in `candidate` (for residual: the residual itself) and selects at most k of its
  // entries. update, memory and candidate have dimension entries; memory is h for tracked, else empty. A non-finite
  // candidate is an Error (bad_input) that names the coordinate. Selection::squared_norm is the candidate's.
  virtual Status select(std::span<const float> update, std::span<const float> tracked, std::span<float> candidate,
                        MemoryKind memory, std::uint32_t k, Selection& out) const = 0;
};

// "dense", "topk"; an unknown name lists the candidates. kernels must outlive the compressor. grouping is the tensor
// sizes.
Result<std::unique_ptr<Compressor>> make_compressor(std::string_view name, const CompressorOptions& options,
                                                    const Grouping& tensors, const KernelTable& kernels);
std::vector<std::string> compressor_names();

}  // namespace gleaner
